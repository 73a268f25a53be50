package main

import (
	"context"
	"fmt"
	"time"
	_ "unsafe" // for go:linkname

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/controller/core"
	"sigs.k8s.io/kueue/pkg/features"
	"sigs.k8s.io/kueue/pkg/metrics"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	"sigs.k8s.io/kueue/pkg/util/routine"
	"sigs.k8s.io/kueue/pkg/util/wait"
	"sigs.k8s.io/kueue/pkg/workload"

	"github.com/go-logr/logr"
)

// schedule is one cycle of Kueue's scheduler. It is not exported, and Start runs it in a loop of its own, which a clock
// that jumps cannot wait for.
//
//go:linkname schedule sigs.k8s.io/kueue/pkg/scheduler.(*Scheduler).schedule
func schedule(*scheduler.Scheduler, context.Context) wait.SpeedSignal

// engine is Kueue without its API server: events go in by arrive, update and leave, decisions come out of cycle.
type engine struct {
	clock     *testingclock.FakeClock
	store     *store
	cache     *schdcache.Cache
	queues    *qcache.Manager
	requeuer  interface{ ProcessRequeues(context.Context) int }
	handlers  *core.WorkloadReconciler
	scheduler *scheduler.Scheduler
	// The cycles in a row without any effect after which no other can have one: a Workload with several flavors tries
	// one in each.
	patience int
}

func newEngine(world *world) (*engine, error) {
	if err := enable(world); err != nil {
		return nil, err
	}
	keepGates()
	// Admissions are written within the cycle, not by goroutines that may end after it.
	routine.DefaultWrapper = inline{}
	e := &engine{clock: testingclock.NewFakeClock(time.Unix(0, 0)), store: newStore(world.namespaces)}
	expected := expectations.New()
	cacheOptions := []schdcache.Option{}
	if world.Config.FairSharing != nil {
		cacheOptions = append(cacheOptions, schdcache.WithFairSharing(true))
	}
	queueOptions := []qcache.Option{
		qcache.WithClock(e.clock),
		qcache.WithPreemptionExpectations(expected),
		// Nothing reads metrics, and those of a LocalQueue count all that waits in it, at each change.
		qcache.WithLocalQueueMetrics(&metrics.LocalQueueMetricsConfig{Enabled: false}),
	}
	if uncounted := world.Config.Resources; uncounted != nil {
		cacheOptions = append(cacheOptions, schdcache.WithExcludedResourcePrefixes(uncounted.ExcludeResourcePrefixes))
		queueOptions = append(queueOptions, qcache.WithExcludedResourcePrefixes(uncounted.ExcludeResourcePrefixes))
	}
	e.cache = schdcache.New(e.store, cacheOptions...)
	// This requeuer is made for Kueue's tests: it collects what is to be tried again until it is asked to. The real one
	// waits for a second of the real clock.
	e.queues, e.requeuer = requeuing(e.store, e.cache, queueOptions)
	e.handlers = core.NewWorkloadReconciler(e.store, e.queues, e.cache, silent{}, core.WithPreemptionExpectations(expected))
	e.scheduler = scheduler.New(e.queues, e.cache, e.store, silent{},
		scheduler.WithClock(nil, e.clock),
		scheduler.WithFairSharing(world.Config.FairSharing),
		scheduler.WithPreemptionExpectations(expected),
	)
	return e, e.load(world)
}

func requeuing(
	store *store, cache *schdcache.Cache, options []qcache.Option,
) (*qcache.Manager, interface{ ProcessRequeues(context.Context) int }) {
	return qcache.NewManagerForUnitTestsWithRequeuer(store, cache, options...)
}

func enable(world *world) error {
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(world.Config.FeatureGates); err != nil {
		return unplayable("Kueue's feature gates: %v", err)
	}
	if features.Enabled(features.ConcurrentAdmission) {
		return unplayable("concurrent admission makes Workloads of its own, which the player does not play")
	}
	return nil
}

// load adds the queues in the order in which they refer to each other.
func (e *engine) load(world *world) error {
	ctx := context.Background()
	for _, each := range world.flavors {
		e.cache.AddOrUpdateResourceFlavor(logr.Discard(), each)
	}
	for _, each := range world.cohorts {
		if err := e.cache.AddOrUpdateCohort(each); err != nil {
			return fmt.Errorf("Cohort %s: %w", each.Name, err)
		}
		e.queues.AddOrUpdateCohort(ctx, each)
	}
	for _, each := range world.clusterQueues {
		if err := e.cache.AddClusterQueue(ctx, each); err != nil {
			return fmt.Errorf("ClusterQueue %s: %w", each.Name, err)
		}
		active := metav1.Condition{Type: kueue.ClusterQueueActive, Status: metav1.ConditionTrue, Reason: "Ready"}
		apimeta.SetStatusCondition(&each.Status.Conditions, active)
		if err := e.queues.AddClusterQueue(ctx, each); err != nil {
			return fmt.Errorf("ClusterQueue %s: %w", each.Name, err)
		}
		for _, group := range each.Spec.ResourceGroups {
			e.patience = max(e.patience, len(group.Flavors))
		}
	}
	for _, each := range world.localQueues {
		if each.Spec.StopPolicy == nil || *each.Spec.StopPolicy == kueue.None {
			if err := e.queues.AddLocalQueue(ctx, each); err != nil {
				return fmt.Errorf("LocalQueue %s/%s: %w", each.Namespace, each.Name, err)
			}
		}
		if err := e.cache.AddLocalQueue(each); err != nil {
			return fmt.Errorf("LocalQueue %s/%s: %w", each.Namespace, each.Name, err)
		}
	}
	return nil
}

// arrive lets Kueue see a Workload. One that holds quota already waited before that: only then does Kueue know whose queue
// to try again when it ends. (At its own start it asks the API server for the Workloads of each LocalQueue.)
func (e *engine) arrive(found *kueue.Workload) {
	waiting := found
	if workload.HasQuotaReservation(found) {
		waiting = found.DeepCopy()
		waiting.Status = kueue.WorkloadStatus{}
	}
	e.store.put(waiting)
	e.handlers.Create(event.TypedCreateEvent[*kueue.Workload]{Object: waiting})
	if waiting != found {
		e.update(waiting, found)
	}
}

// update stores a Workload that the job changed.
func (e *engine) update(before, after *kueue.Workload) {
	e.store.put(after)
	e.observe(change{before: before, after: after})
}

// observe does what Kueue does when it sees a change of a Workload.
func (e *engine) observe(each change) {
	e.handlers.Update(event.TypedUpdateEvent[*kueue.Workload]{ObjectOld: each.before, ObjectNew: each.after})
}

func (e *engine) leave(found *kueue.Workload) {
	e.store.remove(keyOf(found))
	e.handlers.Delete(event.TypedDeleteEvent[*kueue.Workload]{Object: found})
}

// cycle runs the scheduler once and returns what it wrote, and whether it would go on at once. Without a head it would
// wait forever: call it while heads is more than 0.
func (e *engine) cycle() ([]change, wait.SpeedSignal) {
	signal := schedule(e.scheduler, context.Background())
	found := e.store.take()
	for _, each := range found {
		e.observe(each)
	}
	return found, signal
}

// heads is the number of Workloads that wait for a cycle, not for a change of the queues.
func (e *engine) heads() int {
	total := 0
	for _, waiting := range e.queues.Dump() {
		total += len(waiting)
	}
	return total
}

func (e *engine) requeue() { e.requeuer.ProcessRequeues(context.Background()) }

type inline struct{}

func (inline) Run(function func()) { function() }

// silent drops Events.
type silent struct{}

func (silent) Eventf(_, _ runtime.Object, _, _, _, _ string, _ ...any) {}
