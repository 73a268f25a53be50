package main

import (
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	kaifake "github.com/NVIDIA/KAI-scheduler/pkg/apis/client/clientset/versioned/fake"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf_util"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/framework"
)

const (
	// Without a limit in the world. A change of quotas settles in a few rounds.
	defaultRounds = 100
	// How often KAI may panic in a row: it does so by chance, depending on the order of a map.
	mostPanics = 20
)

type player struct {
	world   *world
	outcome *outcome
	// What owners are about to create again: KAI has a session before they do, and starts what it evicted for.
	returning []*corev1.Pod
	// panics is how often KAI has panicked without deciding anything since it last did.
	panics int
}

func newPlayer(world *world) *player {
	if world.MaxRounds == 0 {
		world.MaxRounds = defaultRounds
	}
	return &player{world: world, outcome: newOutcome(world)}
}

// play runs rounds of all schedulers until one changes nothing.
func (p *player) play() (*outcome, error) {
	isPatient := p.world.PatienceSeconds == 0
	for round := 1; round <= p.world.MaxRounds; round++ {
		p.outcome.Rounds = round
		changed := p.endPods()
		created := p.returning
		p.returning = nil
		for _, each := range p.world.Shards {
			found, err := p.session(each)
			if err != nil {
				return nil, err
			}
			p.outcome.add(round, found)
			changed = p.apply(round, found) || found.panicked != nil || changed
			if err := p.count(found); err != nil {
				return nil, err
			}
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

// session is one cycle of one scheduler, as its program runs it (pkg/scheduler/scheduler.go).
func (p *player) session(shard shard) (*recorder, error) {
	stop := make(chan struct{})
	defer close(stop)
	recorder := newRecorder(p.cache(shard, stop))
	session, err := framework.OpenSession(recorder, shard.Config, shard.params, "", http.NewServeMux())
	if err != nil {
		return nil, err
	}
	actions, err := conf_util.GetActionsFromConfig(shard.Config)
	if err != nil {
		return nil, err
	}
	recorder.run(session, actions)
	return recorder, nil
}

// count gives up on a world at which KAI panics again and again. Its program would end, start again and try anew; what
// it had decided by then is decided.
func (p *player) count(found *recorder) error {
	if found.panicked == nil || len(found.bound)+len(found.evicted) > 0 {
		p.panics = 0
		return nil
	}
	p.panics++
	if p.panics > mostPanics {
		return unplayable("KAI's scheduler itself fails at this work: %v", found.panicked)
	}
	return nil
}

// cache has its own clients in every session: they hold the world as it is now, and no watch is behind.
func (p *player) cache(shard shard, stop <-chan struct{}) cache.Cache {
	kube := fake.NewSimpleClientset(p.kubernetes()...)
	params := shard.params
	found := cache.New(&cache.SchedulerCacheParams{
		KubeClient:                  kube,
		KAISchedulerClient:          kaifake.NewSimpleClientset(p.kai()...),
		SchedulerName:               params.SchedulerName,
		NodePoolParams:              params.PartitionParams,
		RestrictNodeScheduling:      params.RestrictSchedulingNodes,
		DetailedFitErrors:           params.DetailedFitErrors,
		ScheduleCSIStorage:          params.ScheduleCSIStorage,
		FullHierarchyFairness:       params.FullHierarchyFairness,
		NumOfStatusRecordingWorkers: params.NumOfStatusRecordingWorkers,
		DiscoveryClient:             kube.Discovery(),
	})
	found.Run(stop)
	found.WaitForCacheSync(stop)
	return found
}

func (p *player) kubernetes() []runtime.Object {
	var found []runtime.Object
	found = objects(found, p.world.Nodes)
	found = objects(found, p.world.PriorityClasses)
	return objects(found, p.world.Pods)
}

func (p *player) kai() []runtime.Object {
	var found []runtime.Object
	found = objects(found, p.world.Queues)
	found = objects(found, p.world.Topologies)
	return objects(found, p.world.PodGroups)
}

func objects[Kind runtime.Object](found []runtime.Object, more []Kind) []runtime.Object {
	for _, each := range more {
		found = append(found, each)
	}
	return found
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
