package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	podgroupv2alpha2 "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2alpha2"
	"github.com/NVIDIA/KAI-scheduler/pkg/common/constants"
)

// The longest line of input. A job has a few hundred bytes, the nodes of a large cluster a few megabytes.
const longestLine = 64 << 20

// course is the first line of the input of a replay.
type course struct {
	cluster
	// GraceSeconds pass between an eviction and the end of its pods.
	GraceSeconds int64 `json:"graceSeconds"`
	// ProtectedSeconds after its start, work is no longer protected by a minimum runtime.
	ProtectedSeconds []int64 `json:"protectedSeconds"`
	// StaleSeconds after a gang has become incomplete, KAI gives up on it.
	StaleSeconds int64 `json:"staleSeconds"`
	// ProcessorSeconds of this process end the replay. Unlike time, they do not depend on what else the machine does.
	ProcessorSeconds int64 `json:"processorSeconds"`
	// HorizonSeconds after the first arrival the play ends; 0 plays until nothing is left to happen.
	HorizonSeconds int64 `json:"horizonSeconds"`
	// Flavors is node -> flavor, by which use is counted.
	Flavors map[string]string `json:"flavors"`
}

// job is a PodGroup with its pods and the seconds that it runs without interruption; without them it never ends. Pods
// that name a node run there when the job arrives.
type job struct {
	Label   string                     `json:"job"`
	Group   *podgroupv2alpha2.PodGroup `json:"group"`
	PodSets []podSet                   `json:"podSets"`
	Seconds *int64                     `json:"seconds"`
	// At is when it arrives; without it, when its group was created.
	At *int64 `json:"at"`
	// Ran are the seconds of its first run that are over when the run begins here.
	Ran int64 `json:"ran"`
	// Delays are the seconds, by flavor, that a run holds its nodes before they are there.
	Delays map[string]int64 `json:"delays"`

	number int
	// pods that exist, by namespace and name.
	pods map[string]*corev1.Pod
	// generation counts the times that pods were created.
	generation int
	// started is when KAI placed the group last, stale since when it lacks pods of its minimum.
	started, stale *int64
	runs           []runRecord
}

type podSet struct {
	Count int         `json:"count"`
	Pod   *corev1.Pod `json:"pod"`
}

func readCourse(source io.Reader) (*course, []*job, error) {
	lines := bufio.NewScanner(source)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	if !lines.Scan() {
		return nil, nil, unplayable("the input is empty: its first line is the cluster")
	}
	found := &course{}
	if err := json.Unmarshal(lines.Bytes(), found); err != nil {
		return nil, nil, unplayable("the cluster cannot be read: %v", err)
	}
	if err := found.prepare(); err != nil {
		return nil, nil, err
	}
	for index, each := range found.Queues {
		// Where two queues of equal shares are of one age, KAI takes one by chance.
		each.CreationTimestamp = metav1.NewTime(time.Unix(0, int64(index)))
	}
	var jobs []*job
	for lines.Scan() {
		each := &job{number: len(jobs)}
		if err := json.Unmarshal(lines.Bytes(), each); err != nil || each.Group == nil {
			return nil, nil, unplayable("job %d cannot be read: %v", len(jobs), err)
		}
		each.prepare()
		jobs = append(jobs, each)
	}
	return found, jobs, lines.Err()
}

// prepare names the group by the job's number: KAI tells groups apart by their names alone, and orders those of one
// age by them.
func (j *job) prepare() {
	name := fmt.Sprintf("job-%08d", j.number)
	j.Group.Name, j.Group.UID = name, types.UID(name)
	created := j.Group.CreationTimestamp.Truncate(time.Second)
	j.Group.CreationTimestamp = metav1.NewTime(created.Add(time.Duration(j.number)))
	j.pods = map[string]*corev1.Pod{}
}

func (j *job) key() string { return j.Group.Namespace + "/" + j.Group.Name }

func (j *job) arrival() int64 {
	if j.At != nil {
		return *j.At
	}
	return j.Group.CreationTimestamp.Unix()
}

// least is how many pods it starts with.
func (j *job) least() int {
	ofParts := 0
	for _, each := range j.Group.Spec.SubGroups {
		ofParts += int(each.MinMember)
	}
	return max(int(j.Group.Spec.MinMember), ofParts, 1)
}

// create makes all pods of the job.
func (j *job) create(second int64) []runtime.Object {
	var made []runtime.Object
	for set, each := range j.PodSets {
		for number := range each.Count {
			pod := each.Pod.DeepCopy()
			pod.Namespace = j.Group.Namespace
			pod.Name = fmt.Sprintf("%s-%d-%d", j.Group.Name, set, number)
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, constants.PodGroupAnnotationForPod, j.Group.Name)
			made = append(made, j.add(pod, second))
		}
	}
	return made
}

func (j *job) add(pod *corev1.Pod, second int64) *corev1.Pod {
	pod.UID = types.UID(fmt.Sprintf("%s-%06d", pod.Name, j.generation))
	pod.CreationTimestamp = metav1.NewTime(time.Unix(second, 0))
	pod.Status.Phase = corev1.PodPending
	if pod.Spec.NodeName != "" {
		pod.Status.Phase = corev1.PodRunning
	}
	j.pods[keyOf(pod)] = pod
	return pod
}

// renew creates pods anew in the place of those that were evicted.
func (j *job) renew(evicted []*corev1.Pod, second int64) []runtime.Object {
	j.generation++
	var made []runtime.Object
	for _, each := range evicted {
		made = append(made, j.add(again(each, j.generation), second))
	}
	return made
}

func (j *job) holding() []*corev1.Pod {
	var found []*corev1.Pod
	for _, pod := range j.pods {
		if pod.Spec.NodeName != "" && pod.DeletionTimestamp == nil {
			found = append(found, pod)
		}
	}
	return found
}

func (j *job) waits() bool {
	for _, pod := range j.pods {
		if pod.Spec.NodeName == "" {
			return true
		}
	}
	return false
}

func (j *job) isRunning() bool { return len(j.runs) > 0 && j.runs[len(j.runs)-1].End == nil }

// delay is that of the slowest flavor that a run was given.
func (j *job) delay(usage usage) int64 {
	var slowest int64
	for flavor := range usage {
		slowest = max(slowest, j.Delays[flavor])
	}
	return slowest
}

// everything are the objects of the job, with its pods in the order of their names.
func (j *job) everything() []runtime.Object {
	found := []runtime.Object{j.Group}
	names := make([]string, 0, len(j.pods))
	for name := range j.pods {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		found = append(found, j.pods[name])
	}
	return found
}
