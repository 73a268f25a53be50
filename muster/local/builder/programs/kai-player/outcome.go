package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

// outcome is what the schedulers decided, and how the groups stand in the end.
type outcome struct {
	Rounds int `json:"rounds"`
	// Settled is false where the last round still changed something.
	Settled   bool             `json:"settled"`
	Decisions []decision       `json:"decisions"`
	Groups    map[string]group `json:"groups"`
	// Digest is equal for equal decisions and groups.
	Digest string `json:"digest"`

	world   *world
	reasons map[string]string
}

// decision is about the pods of one group: allocated, evicted, or pipelined, which means promised a place that others
// are about to leave.
type decision struct {
	Round  int      `json:"round"`
	Kind   string   `json:"kind"`
	Action string   `json:"action"`
	Group  string   `json:"group"`
	Pods   []string `json:"pods"`
	// By is the group for which they were evicted; "" for none.
	By string `json:"by,omitempty"`
}

type group struct {
	// Running is pod -> node.
	Running map[string]string `json:"running"`
	Waiting []string          `json:"waiting"`
	// Why is KAI's reason while a pod waits.
	Why string `json:"why,omitempty"`
}

func newOutcome(world *world) *outcome {
	return &outcome{world: world, reasons: map[string]string{}, Decisions: []decision{}}
}

func (o *outcome) add(round int, found *recorder) {
	var now []decision
	for _, each := range found.bound {
		now = append(now, decision{Round: round, Kind: "allocated", Action: each.action, Group: each.group, Pods: []string{each.pod}})
	}
	for _, each := range found.evicted {
		now = append(now, decision{
			Round: round, Kind: "evicted", Action: each.action, Group: each.group, Pods: []string{each.pod}, By: each.by,
		})
	}
	for _, each := range found.pipelined {
		now = append(now, decision{Round: round, Kind: "pipelined", Action: each.action, Group: each.group, Pods: []string{each.pod}})
	}
	for index := range now {
		now[index].Group, now[index].By = labelOf(now[index].Group), labelOf(now[index].By)
	}
	o.Decisions = append(o.Decisions, merged(now)...)
	for name, job := range found.jobs {
		o.reasons[labelOf(name)] = reason(job)
	}
}

// merged has one decision for the pods of a group about which the same was decided.
func merged(single []decision) []decision {
	slices.SortStableFunc(single, func(a, b decision) int {
		return cmp.Or(
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Action, b.Action), cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.By, b.By), cmp.Compare(a.Pods[0], b.Pods[0]),
		)
	})
	var found []decision
	for _, each := range single {
		if last := len(found) - 1; last >= 0 && isSame(found[last], each) {
			found[last].Pods = append(found[last].Pods, each.Pods...)
		} else {
			found = append(found, each)
		}
	}
	return found
}

func isSame(a, b decision) bool {
	return a.Kind == b.Kind && a.Action == b.Action && a.Group == b.Group && a.By == b.By
}

func (o *outcome) finish() *outcome {
	o.Groups = map[string]group{}
	queues := map[string]bool{}
	for _, each := range o.world.Queues {
		queues[each.Name] = true
	}
	for _, each := range o.world.PodGroups {
		name := labelOf(each.Namespace + "/" + each.Name)
		why := o.reasons[name]
		if !queues[each.Spec.Queue] {
			why = fmt.Sprintf("queue %s does not exist", each.Spec.Queue)
		}
		o.Groups[name] = group{Running: map[string]string{}, Waiting: []string{}, Why: why}
	}
	for _, pod := range o.world.Pods {
		name := labelOf(groupOf(pod))
		found, has := o.Groups[name]
		if !has || pod.DeletionTimestamp != nil {
			continue
		}
		if pod.Spec.NodeName != "" {
			found.Running[keyOf(pod)] = pod.Spec.NodeName
		} else {
			found.Waiting = append(found.Waiting, keyOf(pod))
		}
		o.Groups[name] = found
	}
	for name, found := range o.Groups {
		slices.Sort(found.Waiting)
		if len(found.Waiting) == 0 {
			found.Why = ""
		}
		o.Groups[name] = found
	}
	o.Digest = digest(o.Decisions, o.Groups)
	return o
}

func digest(parts ...any) string {
	// Maps are written in the order of their keys.
	text, err := json.Marshal(parts)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
