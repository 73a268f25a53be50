package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/NVIDIA/KAI-scheduler/cmd/scheduler/app"
	"github.com/NVIDIA/KAI-scheduler/cmd/scheduler/app/options"
	topologyv1alpha1 "github.com/NVIDIA/KAI-scheduler/pkg/apis/kai/v1alpha1"
	schedulingv1alpha2 "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v1alpha2"
	queuev2 "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2"
	podgroupv2alpha2 "github.com/NVIDIA/KAI-scheduler/pkg/apis/scheduling/v2alpha2"
	"github.com/NVIDIA/KAI-scheduler/pkg/common/constants"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/conf_util"
)

// Before the namespace in the name of a group that was told apart. No name in a cluster has it.
const ofNamespace = ":"

// cluster is what stays: the schedulers, their queues, and the nodes.
type cluster struct {
	Shards          []shard                       `json:"shards"`
	Nodes           []*corev1.Node                `json:"nodes"`
	Topologies      []*topologyv1alpha1.Topology  `json:"topologies"`
	PriorityClasses []*schedulingv1.PriorityClass `json:"priorityClasses"`
	Queues          []*queuev2.Queue              `json:"queues"`
}

// world is everything that KAI decides by, at one moment.
type world struct {
	cluster
	// Taken is that moment. The times of the objects are moved so that it is now.
	Taken time.Time `json:"taken"`
	// MaxRounds ends a play that does not settle.
	MaxRounds int `json:"maxRounds"`
	// PatienceSeconds pass once nothing changes: after them no work is protected any more that has run for less.
	PatienceSeconds int64 `json:"patienceSeconds"`
	// Returns: the owner of an evicted pod creates it again, as KubeRay does.
	Returns bool `json:"returns"`

	PodGroups    []*podgroupv2alpha2.PodGroup      `json:"podGroups"`
	Pods         []*corev1.Pod                     `json:"pods"`
	BindRequests []*schedulingv1alpha2.BindRequest `json:"bindRequests"`
}

// shard is one of KAI's schedulers. The flags are those of its program; without a configuration it has KAI's default.
type shard struct {
	Args   []string                     `json:"args"`
	Config *conf.SchedulerConfiguration `json:"config"`

	params *conf.SchedulerParams
}

// unplayableError says which part of a world the player would play wrongly.
type unplayableError struct{ what string }

func (e unplayableError) Error() string { return e.what }

func unplayable(format string, values ...any) error {
	return unplayableError{fmt.Sprintf(format, values...)}
}

func read(source io.Reader) (*world, error) {
	found := &world{}
	if err := json.NewDecoder(source).Decode(found); err != nil {
		return nil, unplayable("the world cannot be read: %v", err)
	}
	if err := found.prepare(); err != nil {
		return nil, err
	}
	found.tellApart()
	found.bind()
	found.age(time.Since(found.Taken))
	return found, nil
}

func (c *cluster) prepare() error {
	for index := range c.Shards {
		if err := c.Shards[index].prepare(); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) objects() []runtime.Object {
	found := objects(nil, c.Nodes)
	found = objects(found, c.PriorityClasses)
	found = objects(found, c.Topologies)
	return objects(found, c.Queues)
}

func (s *shard) prepare() error {
	flags := pflag.NewFlagSet("shard", pflag.ContinueOnError)
	opt := options.NewServerOption()
	opt.AddFlags(flags)
	if err := flags.Parse(s.Args); err != nil {
		return unplayable("the scheduler's flags cannot be read: %v", err)
	}
	s.params = app.BuildSchedulerParams(opt)
	if s.Config == nil {
		found, err := conf_util.GetDefaultSchedulerConf()
		if err != nil {
			return err
		}
		s.Config = found
	}
	if s.Config.UsageDBConfig != nil {
		return unplayable("the scheduler divides by past usage, which the snapshot does not have")
	}
	if _, err := conf_util.GetActionsFromConfig(s.Config); err != nil {
		return unplayable("the scheduler's configuration: %v", err)
	}
	return nil
}

// tellApart gives a name of its own to each group whose name another namespace has as well: KAI 0.12 tells groups apart
// by their names alone (pkg/scheduler/cache/cluster_info), and would take both for one.
func (w *world) tellApart() {
	homes := map[string]string{}
	given := map[string]string{}
	for _, group := range w.PodGroups {
		home, has := homes[group.Name]
		if !has {
			homes[group.Name] = group.Namespace
		} else if home != group.Namespace {
			key := group.Namespace + "/" + group.Name
			group.Name += ofNamespace + group.Namespace
			given[key] = group.Name
		}
	}
	for _, pod := range w.Pods {
		if name, has := given[groupOf(pod)]; has {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, constants.PodGroupAnnotationForPod, name)
		}
	}
}

// labelOf is the group's namespace and the name that it has in the cluster, of a key.
func labelOf(key string) string {
	label, _, _ := strings.Cut(key, ofNamespace)
	return label
}

// bind does what KAI's binder is about to do.
func (w *world) bind() {
	chosen := map[string]*schedulingv1alpha2.BindRequest{}
	for _, each := range w.BindRequests {
		if each.Status.Phase != schedulingv1alpha2.BindRequestPhaseFailed {
			chosen[each.Namespace+"/"+each.Spec.PodName] = each
		}
	}
	for _, pod := range w.Pods {
		if request := chosen[keyOf(pod)]; request != nil && pod.Spec.NodeName == "" {
			place(pod, request.Spec.SelectedNode, request.Spec.SelectedGPUGroups, request.Spec.ReceivedResourceType)
		}
	}
}
