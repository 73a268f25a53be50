package main

import (
	"net/http"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	toolscache "k8s.io/client-go/tools/cache"

	kaifake "github.com/NVIDIA/KAI-scheduler/pkg/apis/client/clientset/versioned/fake"
	kaiinformers "github.com/NVIDIA/KAI-scheduler/pkg/apis/client/informers/externalversions"
	topologyv1alpha1 "github.com/NVIDIA/KAI-scheduler/pkg/apis/kai/v1alpha1"
	queuev2 "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2"
	podgroupv2alpha2 "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2alpha2"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache/cluster_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf_util"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/framework"
)

// How often KAI may panic in a row: it does so by chance, depending on the order of a map.
const mostPanics = 20

// engine is KAI's schedulers without an API server. What they read is written into the stores of informers that watch
// nothing, so no session is behind.
type engine struct {
	schedulers []*scheduler
	// panics is how often KAI has panicked without deciding anything since it last did.
	panics int
}

// scheduler is one of KAI's, with the cache that it keeps from session to session.
type scheduler struct {
	shard
	cache   *cache.SchedulerCache
	info    *cluster_info.ClusterInfo
	kube    informers.SharedInformerFactory
	kai     kaiinformers.SharedInformerFactory
	actions []framework.Action
	mux     *http.ServeMux
}

func newEngine(cluster *cluster) (*engine, error) {
	found := &engine{}
	for _, each := range cluster.Shards {
		scheduler, err := newScheduler(each)
		if err != nil {
			return nil, err
		}
		found.schedulers = append(found.schedulers, scheduler)
	}
	return found, found.put(cluster.objects()...)
}

func newScheduler(shard shard) (*scheduler, error) {
	kube, kai, params := fake.NewSimpleClientset(), kaifake.NewSimpleClientset(), shard.params
	inner := cache.New(&cache.SchedulerCacheParams{
		KubeClient:                  kube,
		KAISchedulerClient:          kai,
		SchedulerName:               params.SchedulerName,
		NodePoolParams:              params.PartitionParams,
		RestrictNodeScheduling:      params.RestrictSchedulingNodes,
		DetailedFitErrors:           params.DetailedFitErrors,
		ScheduleCSIStorage:          params.ScheduleCSIStorage,
		FullHierarchyFairness:       params.FullHierarchyFairness,
		NumOfStatusRecordingWorkers: params.NumOfStatusRecordingWorkers,
		DiscoveryClient:             kube.Discovery(),
	}).(*cache.SchedulerCache)
	found := &scheduler{
		shard: shard,
		cache: inner,
		kube:  informers.NewSharedInformerFactory(kube, 0),
		kai:   kaiinformers.NewSharedInformerFactory(kai, 0),
		mux:   http.NewServeMux(),
	}
	var err error
	if found.info, err = cluster_info.New(
		found.kube, found.kai, nil, params.PartitionParams, params.RestrictSchedulingNodes,
		&inner.K8sClusterPodAffinityInfo, params.ScheduleCSIStorage, params.FullHierarchyFairness, nil,
	); err != nil {
		return nil, err
	}
	if found.actions, err = conf_util.GetActionsFromConfig(shard.Config); err != nil {
		return nil, err
	}
	return found, nil
}

// put lets the schedulers see objects, and what was changed in them.
func (e *engine) put(objects ...runtime.Object) error {
	return e.each(objects, toolscache.Indexer.Update)
}

// show lets the schedulers see these pods and no others.
func (e *engine) show(pods []*corev1.Pod) error {
	found := make([]any, 0, len(pods))
	for _, each := range pods {
		found = append(found, each)
	}
	for _, each := range e.schedulers {
		if err := each.store(&corev1.Pod{}).Replace(found, ""); err != nil {
			return err
		}
	}
	return nil
}

func (e *engine) remove(objects ...runtime.Object) error {
	return e.each(objects, toolscache.Indexer.Delete)
}

func (e *engine) each(objects []runtime.Object, do func(toolscache.Indexer, any) error) error {
	for _, scheduler := range e.schedulers {
		for _, object := range objects {
			if err := do(scheduler.store(object), object); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *scheduler) store(object runtime.Object) toolscache.Indexer {
	switch object.(type) {
	case *corev1.Node:
		return s.kube.Core().V1().Nodes().Informer().GetIndexer()
	case *corev1.Pod:
		return s.kube.Core().V1().Pods().Informer().GetIndexer()
	case *schedulingv1.PriorityClass:
		return s.kube.Scheduling().V1().PriorityClasses().Informer().GetIndexer()
	case *queuev2.Queue:
		return s.kai.Scheduling().V2().Queues().Informer().GetIndexer()
	case *podgroupv2alpha2.PodGroup:
		return s.kai.Scheduling().V2alpha2().PodGroups().Informer().GetIndexer()
	case *topologyv1alpha1.Topology:
		return s.kai.Kai().V1alpha1().Topologies().Informer().GetIndexer()
	}
	panic("an object of a kind that no scheduler reads")
}

// session is one cycle of one scheduler, as its program runs it (pkg/scheduler/scheduler.go).
func (e *engine) session(scheduler *scheduler) (*recorder, error) {
	recorder := newRecorder(scheduler)
	session, err := framework.OpenSession(recorder, scheduler.Config, scheduler.params, "", scheduler.mux)
	if err != nil {
		return nil, err
	}
	recorder.run(session, scheduler.actions)
	return recorder, e.count(recorder)
}

// count gives up on work at which KAI panics again and again. Its program would end, start again and try anew; what it
// had decided by then is decided.
func (e *engine) count(found *recorder) error {
	if found.panicked == nil || len(found.bound)+len(found.evicted) > 0 {
		e.panics = 0
		return nil
	}
	e.panics++
	if e.panics > mostPanics {
		return unplayable("KAI's scheduler itself fails at this work: %v", found.panicked)
	}
	return nil
}

// snapshot is what a session decides by (pkg/scheduler/cache, SchedulerCache.Snapshot).
func (s *scheduler) snapshot() (*api.ClusterInfo, error) {
	s.cache.K8sClusterPodAffinityInfo = *cache.NewK8sClusterPodAffinityInfo()
	return s.info.Snapshot()
}

func objects[Kind runtime.Object](found []runtime.Object, more []Kind) []runtime.Object {
	for _, each := range more {
		found = append(found, each)
	}
	return found
}
