package main

import (
	"container/heap"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/evict"
)

const (
	// Kueue collects for a second what it tries again after quota was released (pkg/cache/queue/inadmissible_workloads.go).
	requeueSeconds = 1
	// Two Workloads that preempt each other without end would never let the clock go on.
	mostCyclesAnInstant = 100_000
)

// player moves the clock from event to event and acts for the jobs.
type player struct {
	engine   *engine
	jobs     map[types.NamespacedName]*job
	events   events
	record   *record
	grace    int64
	horizon  int64
	now      int64
	requeues bool
}

func newPlayer(engine *engine, world *world, jobs []*job) *player {
	p := &player{
		engine: engine,
		jobs:   make(map[types.NamespacedName]*job, len(jobs)),
		record: newRecord(jobs),
		grace:  world.GraceSeconds,
	}
	for _, each := range jobs {
		p.jobs[each.key] = each
		heap.Push(&p.events, eventAt{second: each.arrival(), kind: arrival, job: each})
	}
	if len(jobs) > 0 && world.HorizonSeconds > 0 {
		p.horizon = p.events[0].second + world.HorizonSeconds
	}
	return p
}

// play ends when nothing is left to happen: jobs that still wait then never start in these queues.
func (p *player) play() error {
	for p.events.Len() > 0 {
		p.now = p.events[0].second
		if p.horizon > 0 && p.now > p.horizon {
			break
		}
		p.engine.clock.SetTime(time.Unix(p.now, 0))
		if err := p.instant(); err != nil {
			return err
		}
	}
	for _, each := range p.jobs {
		if waiting := p.engine.store.get(each.key); waiting != nil {
			each.why = reason(waiting)
		}
	}
	p.record.close(p.now)
	return nil
}

// instant plays everything that happens at one second: events first, then cycles until they have no effect.
func (p *player) instant() error {
	p.happen()
	idle := 0
	waiting := p.engine.heads()
	for cycles := 0; waiting > 0 && idle <= p.engine.patience; cycles++ {
		if cycles == mostCyclesAnInstant {
			return fmt.Errorf("%d cycles at second %d did not settle", cycles, p.now)
		}
		has := p.decide()
		p.happen()
		left := p.engine.heads()
		// A preemptor that waits for its victims to go, and the head of a strict queue, are tried again in every cycle.
		if has || left != waiting {
			idle = 0
		} else {
			idle++
		}
		waiting = left
	}
	return nil
}

// happen plays the events that are due.
func (p *player) happen() {
	for p.events.Len() > 0 && p.events[0].second == p.now {
		due := heap.Pop(&p.events).(eventAt)
		switch due.kind {
		case requeue:
			p.requeues = false
			p.engine.requeue()
		case end:
			// An eviction ended this run before.
			if due.run == len(due.job.runs) && !due.job.runs[due.run-1].isOver() {
				p.end(due.job)
			}
		case release:
			p.release(due.job)
		case arrival:
			p.arrive(due.job)
		}
	}
}

func (p *player) arrive(job *job) {
	p.engine.arrive(job.Workload)
	if workload.HasQuotaReservation(job.Workload) {
		p.record.hold(job, p.now, job.Workload.Status.Admission)
		p.endAfter(job, -job.Ran)
	}
}

// decide runs a cycle and returns whether it started or evicted a job.
func (p *player) decide() bool {
	p.record.summary.Cycles++
	has := false
	for _, each := range p.engine.cycle() {
		p.record.summary.Patches++
		job := p.jobs[keyOf(each.after)]
		switch {
		case evict.IsEvicted(each.after) && workload.HasQuotaReservation(each.after):
			if !evict.IsEvicted(each.before) {
				has = true
				p.evict(job, each.after)
			}
		case workload.IsAdmitted(each.after) && !workload.IsAdmitted(each.before):
			has = true
			p.start(job, each.after)
		}
	}
	return has
}

func (p *player) start(job *job, started *kueue.Workload) {
	delay := job.delay(started.Status.Admission)
	p.record.start(job, p.now, started.Status.Admission, delay)
	p.endAfter(job, delay)
}

// endAfter lets the run that began end after the job's seconds and more.
func (p *player) endAfter(job *job, more int64) {
	if job.Seconds != nil {
		second := p.now + max(*job.Seconds+more, 0)
		heap.Push(&p.events, eventAt{second: second, kind: end, job: job, run: len(job.runs)})
	}
}

func (p *player) evict(job *job, evicted *kueue.Workload) {
	p.record.evict(job, p.now, apimeta.FindStatusCondition(evicted.Status.Conditions, kueue.WorkloadPreempted))
	heap.Push(&p.events, eventAt{second: p.now + p.grace, kind: release, job: job})
}

func (p *player) end(job *job) {
	p.record.end(job, p.now)
	before := p.engine.store.get(job.key)
	after := before.DeepCopy()
	apimeta.SetStatusCondition(&after.Status.Conditions, metav1.Condition{
		Type: kueue.WorkloadFinished, Status: metav1.ConditionTrue, Reason: kueue.WorkloadFinishedReasonSucceeded,
		LastTransitionTime: metav1.NewTime(p.engine.clock.Now()),
	})
	p.engine.update(before, after)
	p.engine.leave(after)
	p.requeueSoon()
}

// release gives the quota of an evicted job back, as Kueue's job integrations do when its pods are gone
// (pkg/controller/jobframework/reconciler.go). The job waits again, and starts from its beginning.
func (p *player) release(job *job) {
	now := p.engine.clock.Now()
	before := p.engine.store.get(job.key)
	after := before.DeepCopy()
	eviction := apimeta.FindStatusCondition(after.Status.Conditions, kueue.WorkloadEvicted)
	workload.SetRequeuedCondition(after, eviction.Reason, eviction.Message, true)
	// Kueue takes the real time here.
	apimeta.FindStatusCondition(after.Status.Conditions, kueue.WorkloadRequeued).LastTransitionTime = metav1.NewTime(now)
	reason := workload.UnadmittedWorkloadReasonWithFallback(
		kueue.WorkloadQuotaReservedReasonPendingEvaluation,
		kueue.WorkloadPending, //nolint:staticcheck // what Kueue writes while the gate for finer reasons is off
	)
	workload.UnsetQuotaReservationWithCondition(after, reason, eviction.Message, now)
	p.engine.update(before, after)
	p.requeueSoon()
}

// reason is Kueue's for keeping a Workload waiting. Right after an eviction the message is that of the eviction.
func reason(waiting *kueue.Workload) string {
	pending := apimeta.FindStatusCondition(waiting.Status.Conditions, kueue.WorkloadQuotaReserved)
	if pending == nil || pending.Status == metav1.ConditionTrue {
		return ""
	}
	eviction := apimeta.FindStatusCondition(waiting.Status.Conditions, kueue.WorkloadEvicted)
	if eviction != nil && eviction.Message == pending.Message {
		return ""
	}
	return pending.Message
}

func (p *player) requeueSoon() {
	if !p.requeues {
		p.requeues = true
		heap.Push(&p.events, eventAt{second: p.now + requeueSeconds, kind: requeue})
	}
}

func keyOf(found *kueue.Workload) types.NamespacedName {
	return types.NamespacedName{Namespace: found.Namespace, Name: found.Name}
}
