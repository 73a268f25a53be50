package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// The longest line of input. A Workload has a few hundred bytes, a world with 1,000 queues a few megabytes.
const longestLine = 64 << 20

// world is what Kueue decides by, as rendered for a cluster: its configuration and the objects of its queues.
type world struct {
	// Grace passes between an eviction and the release of its quota.
	Grace moment `json:"graceSeconds"`
	// Cycle is what the scheduler takes for a cycle, and for each Workload more that it writes.
	Cycle  moment               `json:"cycleSeconds"`
	Config config.Configuration `json:"config"`
	// Horizon after the first arrival the play ends; 0 plays until no job can start any more.
	Horizon moment `json:"horizonSeconds"`
	// Limit is how long the play may take by the real clock; then it ends where it is. 0 for no limit.
	Limit moment `json:"limitSeconds"`
	// MemoryMiB is how much may be used before garbage is collected at any cost.
	MemoryMiB int64             `json:"memoryMiB"`
	Objects   []json.RawMessage `json:"objects"`

	namespaces    map[string]*corev1.Namespace
	flavors       []*kueue.ResourceFlavor
	cohorts       []*kueue.Cohort
	clusterQueues []*kueue.ClusterQueue
	localQueues   []*kueue.LocalQueue
}

// job is a Workload with the seconds that it runs without interruption; without them it never ends. One with an
// admission in its status holds quota when it arrives.
type job struct {
	Workload *kueue.Workload `json:"workload"`
	Seconds  *moment         `json:"seconds"`
	// Ran are the seconds of its run that are over when it arrives with quota; below 0, its nodes are there in so many.
	Ran moment `json:"ran"`
	// At is when it arrives; without it, at its creation.
	At *moment `json:"at"`
	// Grace is that of this job; without it, the world's.
	Grace *moment `json:"grace"`
	// Recorded are its runs as they were. What Kueue decides within a second of one is taken for the same and ends when
	// that did: how long Kueue took this time, the recorded end knows better.
	Recorded []recorded `json:"recorded"`
	// Delays are the seconds, by flavor, that a run holds quota before its nodes are there.
	Delays map[string]moment `json:"delays"`

	number int
	key    types.NamespacedName
	runs   []runRecord
	why    string
}

// recorded is a run as it was. Without an eviction it ran to its end.
type recorded struct {
	Start   moment  `json:"start"`
	Evicted *moment `json:"evicted"`
	// End is when its quota was free.
	End moment `json:"end"`
}

// unplayableError says which part of a world the player would play wrongly.
type unplayableError struct{ what string }

func (e unplayableError) Error() string { return e.what }

func unplayable(format string, values ...any) error {
	return unplayableError{fmt.Sprintf(format, values...)}
}

func read(source io.Reader) (*world, []*job, error) {
	lines := bufio.NewScanner(source)
	lines.Buffer(make([]byte, 1<<20), longestLine)
	if !lines.Scan() {
		return nil, nil, unplayable("the input is empty: its first line is the world")
	}
	found := &world{namespaces: map[string]*corev1.Namespace{}}
	if err := json.Unmarshal(lines.Bytes(), found); err != nil {
		return nil, nil, unplayable("the world cannot be read: %v", err)
	}
	if err := found.load(); err != nil {
		return nil, nil, err
	}
	var jobs []*job
	for lines.Scan() {
		each := &job{number: len(jobs)}
		if err := json.Unmarshal(lines.Bytes(), each); err != nil || each.Workload == nil {
			return nil, nil, unplayable("job %d cannot be read: %v", len(jobs), err)
		}
		if err := each.prepare(); err != nil {
			return nil, nil, err
		}
		jobs = append(jobs, each)
	}
	return found, jobs, lines.Err()
}

func (j *job) prepare() error {
	workload := j.Workload
	j.key = types.NamespacedName{Namespace: workload.Namespace, Name: workload.Name}
	if workload.UID == "" {
		workload.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", j.number))
	}
	workload.Generation = 1
	// Kueue orders by creation time, and where two are equal, by the order of a map. The job's number decides
	// instead.
	arrival := workload.CreationTimestamp.Truncate(time.Second)
	workload.CreationTimestamp = metav1.NewTime(arrival.Add(time.Duration(j.number)))
	if workload.Spec.Active == nil {
		active := true
		workload.Spec.Active = &active
	}
	for _, pods := range workload.Spec.PodSets {
		if pods.TopologyRequest != nil {
			return unplayable("Workload %s asks for a topology, which the player does not place", j.key)
		}
	}
	return nil
}

func (j *job) arrival() moment {
	if j.At != nil {
		return *j.At
	}
	return moment(j.Workload.CreationTimestamp.Unix()) * second
}

// recordedRun is the one that began within a second of now, ran to its end, and is taken for the run that begins now.
func (j *job) recordedRun(now moment) *recorded {
	for index, each := range j.Recorded {
		if each.Evicted == nil && near(each.Start, now) {
			return &j.Recorded[index]
		}
	}
	return nil
}

// recordedEviction is the run that was evicted within a second of now.
func (j *job) recordedEviction(now moment) *recorded {
	for index, each := range j.Recorded {
		if each.Evicted != nil && near(*each.Evicted, now) {
			return &j.Recorded[index]
		}
	}
	return nil
}

func near(a, b moment) bool { return max(a-b, b-a) <= second }

// delay is that of the slowest flavor that a run was given.
func (j *job) delay(admission *kueue.Admission) moment {
	var slowest moment
	for _, pods := range admission.PodSetAssignments {
		for _, flavor := range pods.Flavors {
			slowest = max(slowest, j.Delays[string(flavor)])
		}
	}
	return slowest
}

// load sorts the objects by kind and refuses what the player does not play.
func (w *world) load() error {
	if w.Config.AdmissionFairSharing != nil {
		return unplayable("admission fair sharing depends on sampled usage, which the player does not play")
	}
	for _, raw := range w.Objects {
		var kind metav1.TypeMeta
		if err := json.Unmarshal(raw, &kind); err != nil {
			return unplayable("an object cannot be read: %v", err)
		}
		if err := w.add(kind.Kind, raw); err != nil {
			return err
		}
	}
	w.Objects = nil
	return nil
}

func (w *world) add(kind string, raw json.RawMessage) error {
	switch kind {
	case "Namespace":
		found, err := decode[corev1.Namespace](raw)
		if err != nil {
			return err
		}
		if found.Labels == nil {
			found.Labels = map[string]string{}
		}
		// The API server gives this one, and queues select by it.
		found.Labels[corev1.LabelMetadataName] = found.Name
		w.namespaces[found.Name] = found
	case "ResourceFlavor":
		found, err := decode[kueue.ResourceFlavor](raw)
		if err != nil {
			return err
		}
		if found.Spec.TopologyName != nil {
			return unplayable("flavor %s has a topology, which the player does not place", found.Name)
		}
		w.flavors = append(w.flavors, found)
	case "Cohort":
		found, err := decode[kueue.Cohort](raw)
		if err != nil {
			return err
		}
		w.cohorts = append(w.cohorts, found)
	case "ClusterQueue":
		found, err := decode[kueue.ClusterQueue](raw)
		if err != nil {
			return err
		}
		if found.Spec.AdmissionChecksStrategy != nil {
			return unplayable("ClusterQueue %s has admission checks, which the player does not play", found.Name)
		}
		complete(found)
		w.clusterQueues = append(w.clusterQueues, found)
	case "LocalQueue":
		found, err := decode[kueue.LocalQueue](raw)
		if err != nil {
			return err
		}
		w.localQueues = append(w.localQueues, found)
	case "WorkloadPriorityClass", "Topology":
		// A Workload carries its priority, and a flavor that uses a Topology is refused.
	default:
		return unplayable("an object of kind %q is not played", kind)
	}
	return nil
}

func decode[Kind any](raw json.RawMessage) (*Kind, error) {
	found := new(Kind)
	if err := json.Unmarshal(raw, found); err != nil {
		return nil, unplayable("an object cannot be read: %v", err)
	}
	return found, nil
}

// complete fills in what the API server would: the defaults of the CustomResourceDefinition of v0.19.
func complete(queue *kueue.ClusterQueue) {
	spec := &queue.Spec
	orDefault(&spec.QueueingStrategy, kueue.BestEffortFIFO)
	if spec.FlavorFungibility == nil {
		spec.FlavorFungibility = &kueue.FlavorFungibility{}
	}
	orDefault(&spec.FlavorFungibility.WhenCanBorrow, kueue.MayStopSearch)
	orDefault(&spec.FlavorFungibility.WhenCanPreempt, kueue.TryNextFlavor)
	if spec.Preemption == nil {
		spec.Preemption = &kueue.ClusterQueuePreemption{}
	}
	orDefault(&spec.Preemption.ReclaimWithinCohort, kueue.PreemptionPolicyNever)
	orDefault(&spec.Preemption.WithinClusterQueue, kueue.PreemptionPolicyNever)
	if spec.Preemption.BorrowWithinCohort == nil {
		spec.Preemption.BorrowWithinCohort = &kueue.BorrowWithinCohort{}
	}
	orDefault(&spec.Preemption.BorrowWithinCohort.Policy, kueue.BorrowWithinCohortPolicyNever)
}

func orDefault[Word ~string](word *Word, value Word) {
	if *word == "" {
		*word = value
	}
}
