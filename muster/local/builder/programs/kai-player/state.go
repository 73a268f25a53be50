package main

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/NVIDIA/KAI-scheduler/pkg/common/constants"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/pod_info"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/api/podgroup_info"
)

// What KAI's programs and the kubelet make of the decisions, between two rounds.

func keyOf(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func groupOf(pod *corev1.Pod) string {
	return pod.Namespace + "/" + pod.Annotations[constants.PodGroupAnnotationForPod]
}

// place runs a pod on a node, with the marks that KAI's binder leaves on it.
func place(pod *corev1.Pod, node string, gpuGroups []string, received string) {
	pod.Spec.NodeName = node
	pod.Status.Phase = corev1.PodRunning
	if received != "" {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, pod_info.ReceivedResourceTypeAnnotationName, received)
	}
	if received != string(pod_info.ReceivedTypeFraction) || len(gpuGroups) == 0 {
		return
	}
	metav1.SetMetaDataLabel(&pod.ObjectMeta, constants.GPUGroup, gpuGroups[0])
	for _, each := range gpuGroups[1:] {
		metav1.SetMetaDataLabel(&pod.ObjectMeta, constants.MultiGpuGroupLabelPrefix+each, each)
	}
}

// again is the pod that the owner of an evicted one creates in its place.
func again(evicted *corev1.Pod, round int) *corev1.Pod {
	pod := evicted.DeepCopy()
	pod.UID = types.UID(fmt.Sprintf("%s-%d", evicted.UID, round))
	pod.CreationTimestamp = metav1.NewTime(time.Now().Truncate(time.Second))
	pod.Spec.NodeName = ""
	pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
	delete(pod.Annotations, pod_info.ReceivedResourceTypeAnnotationName)
	for key := range pod.Labels {
		if key == constants.GPUGroup || len(key) > len(constants.MultiGpuGroupLabelPrefix) &&
			key[:len(constants.MultiGpuGroupLabelPrefix)] == constants.MultiGpuGroupLabelPrefix {
			delete(pod.Labels, key)
		}
	}
	return pod
}

// age moves the times by which KAI protects running work and gives up on incomplete gangs.
func (w *world) age(by time.Duration) {
	for _, group := range w.PodGroups {
		for _, key := range []string{constants.LastStartTimeStamp, constants.StalePodgroupTimeStamp} {
			if found, err := time.Parse(time.RFC3339, group.Annotations[key]); err == nil {
				metav1.SetMetaDataAnnotation(&group.ObjectMeta, key, found.Add(by).Format(time.RFC3339))
			}
		}
	}
}

// stamp writes on each group when it started and since when it is incomplete, as KAI does when a session closes.
func (w *world) stamp(jobs map[string]*podgroup_info.PodGroupInfo) {
	for _, group := range w.PodGroups {
		job := jobs[group.Namespace+"/"+group.Name]
		if job == nil {
			continue
		}
		write(&group.ObjectMeta, constants.LastStartTimeStamp, job.LastStartTimestamp)
		write(&group.ObjectMeta, constants.StalePodgroupTimeStamp, job.StalenessInfo.TimeStamp)
	}
}

func write(meta *metav1.ObjectMeta, key string, at *time.Time) {
	if at == nil {
		delete(meta.Annotations, key)
		return
	}
	metav1.SetMetaDataAnnotation(meta, key, at.UTC().Format(time.RFC3339))
}
