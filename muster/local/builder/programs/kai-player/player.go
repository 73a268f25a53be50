package main

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Without a limit in the world. A change of quotas settles in a few rounds.
const defaultRounds = 100

type player struct {
	engine  *engine
	world   *world
	outcome *outcome
	// What owners are about to create again: KAI has a session before they do, and starts what it evicted for.
	returning []*corev1.Pod
}

func newPlayer(world *world) (*player, error) {
	if world.MaxRounds == 0 {
		world.MaxRounds = defaultRounds
	}
	engine, err := newEngine(&world.cluster)
	if err != nil {
		return nil, err
	}
	if err := engine.put(objects(nil, world.PodGroups)...); err != nil {
		return nil, err
	}
	return &player{engine: engine, world: world, outcome: newOutcome(world)}, nil
}

// play runs rounds of all schedulers until one changes nothing.
func (p *player) play() (*outcome, error) {
	isPatient := p.world.PatienceSeconds == 0
	for round := 1; round <= p.world.MaxRounds; round++ {
		p.outcome.Rounds = round
		changed := p.endPods()
		created := p.returning
		p.returning = nil
		for _, each := range p.engine.schedulers {
			if err := p.engine.show(p.world.Pods); err != nil {
				return nil, err
			}
			found, err := p.engine.session(each)
			if err != nil {
				return nil, err
			}
			p.outcome.add(round, found)
			changed = p.apply(round, found) || found.panicked != nil || changed
		}
		p.world.Pods = append(p.world.Pods, created...)
		changed = changed || len(created) > 0
		if changed {
			continue
		}
		if isPatient {
			p.outcome.Settled = true
			break
		}
		isPatient = true
		p.world.age(-time.Duration(p.world.PatienceSeconds) * time.Second)
	}
	return p.outcome.finish(), nil
}

// endPods removes the pods that were ending. Whether there were any.
func (p *player) endPods() bool {
	if p.outcome.Rounds == 1 {
		// What they hold is not free in the first round.
		return true
	}
	var kept []*corev1.Pod
	for _, pod := range p.world.Pods {
		if pod.DeletionTimestamp == nil {
			kept = append(kept, pod)
		}
	}
	hasEnded := len(kept) < len(p.world.Pods)
	p.world.Pods = kept
	return hasEnded
}

// apply makes the next round's world. Whether it differs.
func (p *player) apply(round int, found *recorder) bool {
	placed := map[string]placement{}
	for _, each := range found.bound {
		placed[each.pod] = each
	}
	gone := map[string]bool{}
	for _, each := range found.evicted {
		gone[each.pod] = true
	}
	var pods []*corev1.Pod
	for _, pod := range p.world.Pods {
		key := keyOf(pod)
		if each, has := placed[key]; has {
			place(pod, each.node, each.gpuGroups, each.received)
		}
		if !gone[key] {
			pods = append(pods, pod)
		} else if p.world.Returns {
			p.returning = append(p.returning, again(pod, round))
		}
	}
	p.world.Pods = pods
	p.world.stamp(found.jobs)
	return len(placed)+len(gone) > 0
}
