package main

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/NVIDIA/KAI-scheduler/pkg/common/constants"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/podgroup_info"
)

const (
	// So many cycles that change something may follow each other in one second; then the clock goes on by one.
	mostCyclesAnInstant = 100
	// Work that is evicted and started without end would never let a replay end: no event of a job lies between so
	// many cycles.
	mostIdleCycles = 20_000
)

// replay moves the clock from event to event and acts for the jobs.
type replay struct {
	course *course
	engine *engine
	events events
	record *record
	now    int64
	// active are the jobs that have arrived and not ended, by the key of their group.
	active map[string]*job
	// gone are pods that were evicted, until their owners create them again. KAI has a session before they do.
	gone map[*job][]*corev1.Pod
	// known is what KAI knew of a group last.
	known map[string]*podgroup_info.PodGroupInfo
	idle  int
	// isNew: something has happened that may let KAI decide otherwise than in its last cycle.
	isNew bool
}

func newReplay(course *course, jobs []*job) (*replay, error) {
	engine, err := newEngine(&course.cluster)
	if err != nil {
		return nil, err
	}
	found := &replay{
		course: course,
		engine: engine,
		record: newRecord(course.Flavors),
		active: map[string]*job{},
		gone:   map[*job][]*corev1.Pod{},
		known:  map[string]*podgroup_info.PodGroupInfo{},
	}
	for _, each := range jobs {
		heap.Push(&found.events, event{second: each.arrival(), kind: arrival, job: each})
	}
	return found, nil
}

// play ends at the horizon, or when nothing is left to happen: jobs that still wait then never start in these queues.
func (r *replay) play() error {
	if r.events.Len() == 0 {
		return nil
	}
	horizon := r.events[0].second + r.course.HorizonSeconds
	for r.events.Len() > 0 {
		r.now = r.events[0].second
		if r.course.HorizonSeconds > 0 && r.now > horizon {
			return nil
		}
		if err := r.instant(); err != nil {
			return err
		}
	}
	return nil
}

// reasons are KAI's for keeping groups waiting at the end.
func (r *replay) reasons() map[string]string {
	found := map[string]string{}
	for key := range r.active {
		if known := r.known[key]; known != nil {
			found[key] = reason(known)
		}
	}
	return found
}

// instant plays everything that happens at one second: events first, then cycles until one leaves nothing to decide.
func (r *replay) instant() error {
	for cycles := 0; ; cycles++ {
		if err := r.happen(); err != nil {
			return err
		}
		if !r.isNew || !r.waits() {
			return nil
		}
		if cycles == mostCyclesAnInstant {
			r.lookAt(r.now + 1)
			return nil
		}
		if err := r.limit(); err != nil {
			return err
		}
		if err := r.cycle(); err != nil {
			return err
		}
	}
}

func (r *replay) waits() bool {
	if len(r.gone) > 0 {
		return true
	}
	for _, each := range r.active {
		if each.waits() {
			return true
		}
	}
	return false
}

// happen plays the events that are due.
func (r *replay) happen() error {
	for r.events.Len() > 0 && r.events[0].second == r.now {
		due := heap.Pop(&r.events).(event)
		if err := r.act(due); err != nil {
			return err
		}
	}
	return nil
}

func (r *replay) act(due event) error {
	job := due.job
	switch due.kind {
	case look:
		r.isNew = true
	case arrival:
		r.idle, r.isNew = 0, true
		return r.arrive(job)
	case end:
		// An eviction ended this run before.
		if due.run != len(job.runs) || !job.isRunning() {
			return nil
		}
		r.idle, r.isNew = 0, true
		r.record.end(job, r.now)
		delete(r.active, job.key())
		delete(r.gone, job)
		delete(r.known, job.key())
		return r.engine.remove(job.everything()...)
	case release:
		return r.release(job)
	}
	return nil
}

func (r *replay) arrive(job *job) error {
	r.active[job.key()] = job
	if err := r.engine.put(append(job.create(r.now), job.Group)...); err != nil {
		return err
	}
	if held := job.holding(); len(held) >= job.least() {
		r.begin(job, held)
	}
	return nil
}

// begin starts a run. A job that ran before the play goes on.
func (r *replay) begin(job *job, held []*corev1.Pod) {
	run := r.record.start(job, r.now, held)
	ran := int64(0)
	if len(job.runs) == 1 && job.Ran > 0 {
		ran = job.Ran
		started := r.now - ran
		job.started = &started
		for _, seconds := range r.course.ProtectedSeconds {
			if at := started + seconds; at > r.now {
				r.lookAt(at)
			}
		}
	}
	if job.Seconds != nil {
		second := r.now + run.Delay + max(*job.Seconds-ran, 1)
		heap.Push(&r.events, event{second: second, kind: end, job: job, run: len(job.runs)})
	}
}

// lookAt lets KAI look again at a time that may let it decide otherwise.
func (r *replay) lookAt(second int64) {
	heap.Push(&r.events, event{second: second, kind: look})
}

// release ends the pods of a job that are being deleted.
func (r *replay) release(job *job) error {
	if r.active[job.key()] == nil {
		return nil
	}
	for _, each := range job.everything() {
		pod, is := each.(*corev1.Pod)
		if !is || pod.DeletionTimestamp == nil || pod.DeletionTimestamp.Unix() > r.now {
			continue
		}
		if err := r.engine.remove(pod); err != nil {
			return err
		}
		r.isNew = true
		delete(job.pods, keyOf(pod))
		pod.DeletionTimestamp = nil
		r.gone[job] = append(r.gone[job], pod)
	}
	return nil
}

// limit ends a replay that takes too long. KAI tries its waiting jobs against the running ones in each cycle, so a
// cycle takes longer the more of both there are.
func (r *replay) limit() error {
	if r.idle > mostIdleCycles {
		return unplayable("KAI evicts and starts the same work without end")
	}
	if processorTime() < time.Duration(r.course.ProcessorSeconds)*time.Second {
		return nil
	}
	waiting := 0
	for _, each := range r.active {
		if !each.isRunning() {
			waiting++
		}
	}
	return unplayable(
		"KAI took %d s of processor time for %d cycles, up to %s, where %d jobs run and %d wait; play fewer jobs or days",
		r.course.ProcessorSeconds, r.record.summary.Cycles, time.Unix(r.now, 0).UTC().Format(time.RFC3339),
		len(r.active)-waiting, waiting,
	)
}

// cycle lets every scheduler decide once.
func (r *replay) cycle() error {
	r.record.summary.Cycles++
	r.idle++
	returning := r.gone
	r.gone = map[*job][]*corev1.Pod{}
	r.isNew = len(returning) > 0
	for _, each := range r.engine.schedulers {
		r.date()
		opened := time.Now()
		found, err := r.engine.session(each)
		if err != nil {
			return err
		}
		if err := r.apply(found, opened); err != nil {
			return err
		}
		r.isNew = r.isNew || !found.isFinal()
	}
	for job, pods := range returning {
		if err := r.engine.put(job.renew(pods, r.now)...); err != nil {
			return err
		}
	}
	return nil
}

// date writes the times of the groups so that they are as long ago as they are by the clock of the replay: KAI compares
// them with the time of this machine.
func (r *replay) date() {
	now := time.Now()
	for _, each := range r.active {
		r.write(each, constants.LastStartTimeStamp, each.started, now)
		r.write(each, constants.StalePodgroupTimeStamp, each.stale, now)
	}
}

func (r *replay) write(job *job, key string, at *int64, now time.Time) {
	if at == nil {
		delete(job.Group.Annotations, key)
		return
	}
	shown := now.Add(-time.Duration(r.now-*at) * time.Second)
	metav1.SetMetaDataAnnotation(&job.Group.ObjectMeta, key, shown.Format(time.RFC3339Nano))
}

// apply carries out what a session has decided.
func (r *replay) apply(found *recorder, opened time.Time) error {
	touched := map[*job]eviction{}
	for _, each := range found.bound {
		job := r.active[each.group]
		pod := job.pods[each.pod]
		place(pod, each.node, each.gpuGroups, each.received)
		if _, has := touched[job]; !has {
			touched[job] = eviction{}
		}
	}
	for _, each := range found.evicted {
		job := r.active[each.group]
		pod := job.pods[each.pod]
		if pod.DeletionTimestamp == nil {
			ends := metav1.NewTime(time.Unix(r.now+r.course.GraceSeconds, 0))
			pod.DeletionTimestamp = &ends
		}
		if touched[job].action == "" {
			touched[job] = each
		}
	}
	for name, each := range found.jobs {
		r.known[name] = each
		if job := r.active[name]; job != nil {
			job.started = r.dated(job.started, each.LastStartTimestamp, opened, r.course.ProtectedSeconds...)
			job.stale = r.dated(job.stale, each.StalenessInfo.TimeStamp, opened, r.course.StaleSeconds)
		}
	}
	jobs := make([]*job, 0, len(touched))
	for each := range touched {
		jobs = append(jobs, each)
	}
	slices.SortFunc(jobs, func(a, b *job) int { return cmp.Compare(a.number, b.number) })
	for _, each := range jobs {
		if err := r.settle(each, touched[each]); err != nil {
			return err
		}
	}
	return nil
}

// dated is the time that KAI has written on a group, by the clock of the replay. Where it is new, KAI looks again so
// many seconds later.
func (r *replay) dated(before *int64, written *time.Time, opened time.Time, looks ...int64) *int64 {
	if written == nil {
		return nil
	}
	if written.Before(opened) {
		return before
	}
	for _, seconds := range looks {
		r.lookAt(r.now + seconds)
	}
	now := r.now
	return &now
}

// settle records what the decisions mean for a job's run.
func (r *replay) settle(job *job, evicted eviction) error {
	held := job.holding()
	isWhole := len(held) >= job.least()
	switch {
	case job.isRunning() && !isWhole:
		by := ""
		if other := r.active[evicted.by]; other != nil {
			by = other.Label
		}
		r.record.evict(job, r.now, by, evicted.action)
	case job.isRunning():
		r.record.grow(job, held)
	case isWhole:
		r.begin(job, held)
	}
	if evicted.action == "" {
		return nil
	}
	if r.course.GraceSeconds == 0 {
		return r.release(job)
	}
	heap.Push(&r.events, event{second: r.now + r.course.GraceSeconds, kind: release, job: job})
	return nil
}
