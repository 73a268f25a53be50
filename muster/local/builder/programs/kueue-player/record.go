package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// Kueue names the preemptor in the victim's condition (pkg/scheduler/preemption/preemption.go, preemptionMessage).
var preemptor = regexp.MustCompile(`UID: ([^,)]+)`)

// runRecord is one run of a job. End is nil while it runs. Delay passes until its nodes are there. Of a run that was
// evicted, By is the job that preempted it and Reason Kueue's.
type runRecord struct {
	Start   moment                       `json:"start"`
	End     *moment                      `json:"end"`
	Delay   moment                       `json:"delay,omitempty"`
	Usage   map[string]map[string]string `json:"usage"`
	Evicted bool                         `json:"evicted,omitempty"`
	By      string                       `json:"by,omitempty"`
	Reason  string                       `json:"reason,omitempty"`
}

func (r *runRecord) isOver() bool { return r.End != nil }

// jobRecord is a job's line of the output. Why is Kueue's reason for keeping it waiting at the end.
type jobRecord struct {
	Job  string      `json:"job"`
	Runs []runRecord `json:"runs"`
	Why  string      `json:"why,omitempty"`
}

// summary is the last line. Digest is over every start, end and eviction, in their order. Cut: the limit of time ended it.
type summary struct {
	Digest      string `json:"digest"`
	End         moment `json:"end"`
	Cycles      int    `json:"cycles"`
	Patches     int    `json:"patches"`
	Admissions  int    `json:"admissions"`
	Preemptions int    `json:"preemptions"`
	Cut         bool   `json:"cut,omitempty"`
}

// record keeps what happened.
type record struct {
	summary summary
	names   map[types.UID]string
	digest  hash.Hash
}

func newRecord(jobs []*job) *record {
	names := make(map[types.UID]string, len(jobs))
	for _, each := range jobs {
		names[each.Workload.UID] = each.key.String()
	}
	return &record{names: names, digest: sha256.New()}
}

func (r *record) start(job *job, now moment, admission *kueue.Admission, delay moment) {
	r.summary.Admissions++
	r.run("start", job, now, admission)
	job.runs[len(job.runs)-1].Delay = delay
}

// hold records a run that began before the play.
func (r *record) hold(job *job, now moment, admission *kueue.Admission) {
	r.run("hold", job, now, admission)
}

func (r *record) run(what string, job *job, now moment, admission *kueue.Admission) {
	run := runRecord{Start: now, Usage: map[string]map[string]string{}}
	for _, pods := range admission.PodSetAssignments {
		for name, flavor := range pods.Flavors {
			run.add(string(flavor), name, pods.ResourceUsage)
		}
	}
	job.runs = append(job.runs, run)
	used, _ := json.Marshal(run.Usage)
	fmt.Fprintf(r.digest, "%s %s %s %s\n", now, what, job.key, used)
}

func (r *runRecord) add(flavor string, name corev1.ResourceName, usage corev1.ResourceList) {
	if r.Usage[flavor] == nil {
		r.Usage[flavor] = map[string]string{}
	}
	amount := usage[name]
	if earlier, found := r.Usage[flavor][string(name)]; found {
		amount.Add(resource.MustParse(earlier))
	}
	r.Usage[flavor][string(name)] = amount.String()
}

func (r *record) end(job *job, now moment) {
	job.runs[len(job.runs)-1].End = &now
	fmt.Fprintf(r.digest, "%s end %s\n", now, job.key)
}

func (r *record) evict(job *job, now moment, preempted *metav1.Condition) {
	r.summary.Preemptions++
	run := &job.runs[len(job.runs)-1]
	run.End, run.Evicted = &now, true
	if preempted != nil {
		run.Reason = preempted.Reason
		if found := preemptor.FindStringSubmatch(preempted.Message); found != nil {
			run.By = r.names[types.UID(found[1])]
		}
	}
	fmt.Fprintf(r.digest, "%s evict %s by %s: %s\n", now, job.key, run.By, run.Reason)
}

func (r *record) close(now moment) {
	r.summary.End = now
	r.summary.Digest = hex.EncodeToString(r.digest.Sum(nil))
}

func (r *record) write(out io.Writer, jobs []*job) error {
	lines := json.NewEncoder(out)
	for _, each := range jobs {
		if err := lines.Encode(jobRecord{Job: each.key.String(), Runs: each.runs, Why: each.why}); err != nil {
			return err
		}
	}
	return lines.Encode(r.summary)
}
