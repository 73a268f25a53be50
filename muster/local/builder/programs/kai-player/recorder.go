package main

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/common_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/eviction_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_status"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/podgroup_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/cache"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/framework"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/log"
)

// recorder is the scheduler's cache, except that what a session decides is written down instead of to an API server.
type recorder struct {
	cache.Cache
	scheduler *scheduler
	action    string
	// panicked is what KAI panicked with; nil where it did not.
	panicked any

	bound     []placement
	evicted   []eviction
	pipelined []placement
	jobs      map[string]*podgroup_info.PodGroupInfo
}

type placement struct {
	action    string
	group     string
	pod       string
	node      string
	gpuGroups []string
	received  string
}

// isByOther: by another action than allocation.
func (p placement) isByOther() bool { return p.action != string(framework.Allocate) }

type eviction struct {
	action string
	group  string
	pod    string
	by     string
}

func newRecorder(scheduler *scheduler) *recorder {
	return &recorder{Cache: scheduler.cache, scheduler: scheduler, jobs: map[string]*podgroup_info.PodGroupInfo{}}
}

// run executes the actions of a session and closes it.
func (r *recorder) run(session *framework.Session, actions []framework.Action) {
	defer func() { r.panicked = recover() }()
	for _, action := range actions {
		r.action = string(action.Name())
		log.InfraLogger.SetAction(r.action)
		action.Execute(session)
	}
	framework.CloseSession(session)
}

// isFinal: the next session would decide nothing. Allocation is the first action, so all others have seen what it left
// over: nothing is left to decide where it alone has decided something.
func (r *recorder) isFinal() bool {
	if len(r.evicted) > 0 || r.panicked != nil {
		return false
	}
	return len(r.bound) == 0 || len(r.pipelined) == 0 && !slices.ContainsFunc(r.bound, placement.isByOther)
}

func (r *recorder) Snapshot() (*api.ClusterInfo, error) { return r.scheduler.snapshot() }

func (r *recorder) Bind(task *pod_info.PodInfo, node string, _ map[string]string) error {
	r.bound = append(r.bound, placement{
		action: r.action, group: groupOf(task.Pod), pod: keyOf(task.Pod), node: node,
		gpuGroups: task.GPUGroups, received: string(task.ResourceReceivedType),
	})
	return nil
}

func (r *recorder) Evict(
	pod *corev1.Pod, job *podgroup_info.PodGroupInfo, why eviction_info.EvictionMetadata, _ string,
) error {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return fmt.Errorf("pod %s has ended", keyOf(pod))
	}
	found := eviction{action: why.Action, group: job.NamespacedName, pod: keyOf(pod)}
	if why.Preemptor != nil {
		found.by = why.Preemptor.String()
	}
	r.evicted = append(r.evicted, found)
	return nil
}

func (r *recorder) TaskPipelined(task *pod_info.PodInfo, _ string) {
	r.pipelined = append(r.pipelined, placement{
		action: r.action, group: groupOf(task.Pod), pod: keyOf(task.Pod), node: task.NodeName,
	})
}

// RecordJobStatusEvent is called for every pod group when a session closes.
func (r *recorder) RecordJobStatusEvent(job *podgroup_info.PodGroupInfo) error {
	r.jobs[job.NamespacedName] = job
	return nil
}

// reason is what KAI would write on the waiting pods of a group; "" where none waits.
func reason(job *podgroup_info.PodGroupInfo) string {
	if job.GetNumPendingTasks() == 0 && job.GetNumGatedTasks() == 0 {
		return ""
	}
	if !job.IsReadyForScheduling() {
		return notReady(job)
	}
	if len(job.JobFitErrors) > 0 {
		return common_info.JobFitErrorsToMessage(job.JobFitErrors)
	}
	waiting := job.PodStatusIndex[pod_status.Pending]
	names := make([]string, 0, len(waiting))
	errors := map[string]string{}
	for uid, task := range waiting {
		if found := job.TasksFitErrors[uid]; found != nil {
			names = append(names, task.Name)
			errors[task.Name] = found.Error()
		}
	}
	if len(names) == 0 {
		return string(common_info.DefaultPodgroupError)
	}
	return errors[slices.Min(names)]
}

func notReady(job *podgroup_info.PodGroupInfo) string {
	var found []string
	for name, group := range job.GetSubGroups() {
		if group.IsReadyForScheduling() {
			continue
		}
		of := ""
		if name != podgroup_info.DefaultSubGroup {
			of = " of " + name
		}
		found = append(found, fmt.Sprintf(
			"waits for %d pods%s, of which %d exist and %d are gated",
			group.GetMinAvailable(), of, group.GetNumAliveTasks(), group.GetNumGatedTasks(),
		))
	}
	slices.Sort(found)
	return strings.Join(found, "; ")
}
