package main

import (
	"container/heap"
	"fmt"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/util/wait"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/evict"
)

const (
	// Kueue collects for a second what it tries again after quota was released (pkg/cache/queue/inadmissible_workloads.go).
	requeueAfter = second
	shortestRest = 1
	longestRest  = 10
	// Two Workloads that preempt each other without end would never let the clock go on.
	mostCyclesAnInstant = 100_000
)

// player moves the clock from event to event and acts for the jobs.
type player struct {
	engine   *engine
	jobs     map[types.NamespacedName]*job
	events   events
	record   *record
	grace    moment
	cycle    moment
	horizon  moment
	limit    time.Duration
	now      moment
	requeues bool
	pause    moment
}

func newPlayer(engine *engine, world *world, jobs []*job) *player {
	p := &player{
		engine: engine,
		jobs:   make(map[types.NamespacedName]*job, len(jobs)),
		record: newRecord(jobs),
		grace:  world.Grace,
		cycle:  world.Cycle,
		limit:  time.Duration(world.Limit) * time.Millisecond,
	}
	for _, each := range jobs {
		p.jobs[each.key] = each
		heap.Push(&p.events, eventAt{at: each.arrival(), kind: arrival, job: each})
	}
	if len(jobs) > 0 && world.Horizon > 0 {
		p.horizon = p.events[0].at + world.Horizon
	}
	return p
}

// play ends when nothing is left to happen: jobs that still wait then never start in these queues. One that is cut says
// nothing about what comes after its last event.
func (p *player) play() error {
	begun := time.Now()
	for p.events.Len() > 0 {
		p.now = max(p.now, p.events[0].at)
		if p.horizon > 0 && p.now > p.horizon {
			break
		}
		if p.limit > 0 && time.Since(begun) > p.limit {
			p.record.summary.Cut = true
			break
		}
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

// instant plays everything that happens at one moment: events first, then cycles until they have no effect.
func (p *player) instant() error {
	p.happen()
	idle := 0
	waiting := p.engine.heads()
	for cycles := 0; waiting > 0 && idle <= p.engine.patience; cycles++ {
		if cycles == mostCyclesAnInstant {
			return fmt.Errorf("%d cycles at second %s did not settle", cycles, p.now)
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

// happen plays the events that are due, each at its own time: some were due while a cycle went on.
func (p *player) happen() {
	now := p.now
	defer func() {
		p.now = now
		p.engine.clock.SetTime(p.now.onServer())
	}()
	for p.events.Len() > 0 && p.events[0].at <= now {
		due := heap.Pop(&p.events).(eventAt)
		p.now = due.at
		p.engine.clock.SetTime(p.now.onServer())
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

// decide runs a cycle, which takes its time, and returns whether it started or evicted a job.
func (p *player) decide() bool {
	p.record.summary.Cycles++
	has := false
	begun := p.now
	p.now += p.cycle
	p.engine.clock.SetTime(p.now.onServer())
	found, signal := p.engine.cycle()
	for _, each := range found {
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
	// Kueue writes one after the other why each waits.
	p.now = begun + p.cycle*moment(max(len(found), 1)) + p.rest(signal)
	return has
}

// rest is what Kueue sleeps after a cycle that admitted nothing (pkg/util/wait/backoff.go): each time twice as long.
func (p *player) rest(signal wait.SpeedSignal) moment {
	if signal == wait.KeepGoing || p.cycle == 0 {
		p.pause = 0
		return 0
	}
	p.pause = min(max(2*p.pause, shortestRest), longestRest)
	return p.pause
}

func (p *player) start(job *job, started *kueue.Workload) {
	delay := job.delay(started.Status.Admission)
	p.record.start(job, p.now, started.Status.Admission, delay)
	if same := job.recordedRun(p.now); same != nil {
		heap.Push(&p.events, eventAt{at: max(same.End, p.now), kind: end, job: job, run: len(job.runs)})
		return
	}
	p.endAfter(job, delay)
}

// endAfter lets the run that began end after the job's seconds and more.
func (p *player) endAfter(job *job, more moment) {
	if job.Seconds != nil {
		at := p.now + max(*job.Seconds+more, 0)
		heap.Push(&p.events, eventAt{at: at, kind: end, job: job, run: len(job.runs)})
	}
}

func (p *player) evict(job *job, evicted *kueue.Workload) {
	p.record.evict(job, p.now, apimeta.FindStatusCondition(evicted.Status.Conditions, kueue.WorkloadPreempted))
	at := p.now + p.grace
	if job.Grace != nil {
		at = p.now + *job.Grace
	}
	if same := job.recordedEviction(p.now); same != nil {
		at = max(same.End, p.now)
	}
	heap.Push(&p.events, eventAt{at: at, kind: release, job: job})
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
		heap.Push(&p.events, eventAt{at: p.now + requeueAfter, kind: requeue})
	}
}

func keyOf(found *kueue.Workload) types.NamespacedName {
	return types.NamespacedName{Namespace: found.Namespace, Name: found.Name}
}
