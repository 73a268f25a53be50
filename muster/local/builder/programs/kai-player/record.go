package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// usage is flavor -> resource -> amount.
type usage map[string]map[corev1.ResourceName]string

// runRecord is one run of a job, in seconds of the Unix epoch. End is nil while it runs. Delay are the seconds until its
// nodes are there. Usage is that of the most pods that it had at once. Of a run that was evicted, By is the job that
// takes the place and Reason KAI's action.
type runRecord struct {
	Start   int64  `json:"start"`
	End     *int64 `json:"end"`
	Delay   int64  `json:"delay,omitempty"`
	Usage   usage  `json:"usage"`
	Evicted bool   `json:"evicted,omitempty"`
	By      string `json:"by,omitempty"`
	Reason  string `json:"reason,omitempty"`

	pods int
}

// jobRecord is a job's line of the output. Why is KAI's reason for keeping it waiting at the end.
type jobRecord struct {
	Job  string      `json:"job"`
	Runs []runRecord `json:"runs"`
	Why  string      `json:"why,omitempty"`
}

// summary is the last line. Digest is over every start, end and eviction, in their order.
type summary struct {
	Digest      string `json:"digest"`
	End         int64  `json:"end"`
	Cycles      int    `json:"cycles"`
	Admissions  int    `json:"admissions"`
	Preemptions int    `json:"preemptions"`
}

// record keeps what happened.
type record struct {
	summary summary
	flavors map[string]string
	digest  hash.Hash
}

func newRecord(flavors map[string]string) *record {
	return &record{flavors: flavors, digest: sha256.New()}
}

func (r *record) start(job *job, now int64, held []*corev1.Pod) *runRecord {
	r.summary.Admissions++
	used := r.used(held)
	job.runs = append(job.runs, runRecord{Start: now, Usage: used, Delay: job.delay(used), pods: len(held)})
	said, _ := json.Marshal(used)
	fmt.Fprintf(r.digest, "%d start %s %s\n", now, job.Label, said)
	return &job.runs[len(job.runs)-1]
}

// grow notes that a run has more pods than before.
func (r *record) grow(job *job, held []*corev1.Pod) {
	run := &job.runs[len(job.runs)-1]
	if len(held) > run.pods {
		run.pods, run.Usage = len(held), r.used(held)
	}
}

func (r *record) end(job *job, now int64) {
	job.runs[len(job.runs)-1].End = &now
	fmt.Fprintf(r.digest, "%d end %s\n", now, job.Label)
}

func (r *record) evict(job *job, now int64, by, reason string) {
	r.summary.Preemptions++
	run := &job.runs[len(job.runs)-1]
	run.End, run.Evicted, run.By, run.Reason = &now, true, by, reason
	fmt.Fprintf(r.digest, "%d evict %s by %s: %s\n", now, job.Label, by, reason)
}

func (r *record) used(held []*corev1.Pod) usage {
	sums := map[string]corev1.ResourceList{}
	for _, pod := range held {
		flavor := r.flavors[pod.Spec.NodeName]
		if sums[flavor] == nil {
			sums[flavor] = corev1.ResourceList{}
		}
		for _, container := range pod.Spec.Containers {
			for name, amount := range container.Resources.Requests {
				sum := sums[flavor][name]
				sum.Add(amount)
				sums[flavor][name] = sum
			}
		}
	}
	found := usage{}
	for flavor, amounts := range sums {
		found[flavor] = map[corev1.ResourceName]string{}
		for name, amount := range amounts {
			found[flavor][name] = amount.String()
		}
	}
	return found
}

func (r *record) write(out io.Writer, jobs []*job, reasons map[string]string, now int64) error {
	r.summary.End, r.summary.Digest = now, hex.EncodeToString(r.digest.Sum(nil))
	lines := json.NewEncoder(out)
	for _, each := range jobs {
		if err := lines.Encode(jobRecord{Job: each.Label, Runs: each.runs, Why: reasons[each.key()]}); err != nil {
			return err
		}
	}
	return lines.Encode(r.summary)
}
