// Answers for each line of the input, a Ray object as JSON, with a line of JSON: what KubeRay's own
// validation refuses, "" for what it takes. In the order in which its controllers ask.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
)

const longestLine = 16 << 20

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		refusal := ""
		if err := validate(lines.Bytes()); err != nil {
			refusal = err.Error()
		}
		if err := answers.Encode(refusal); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func validate(line []byte) error {
	var head struct{ Kind string }
	if err := json.Unmarshal(line, &head); err != nil {
		return err
	}
	switch head.Kind {
	case "RayCluster":
		return judge(line,
			func(cluster *rayv1.RayCluster) error { return utils.ValidateRayClusterMetadata(cluster.ObjectMeta) },
			func(cluster *rayv1.RayCluster) error {
				return utils.ValidateRayClusterSpec(&cluster.Spec, cluster.Annotations)
			},
			utils.ValidateRayClusterUpgradeOptions,
		)
	case "RayJob":
		return judge(line,
			func(job *rayv1.RayJob) error { return utils.ValidateRayJobMetadata(job.ObjectMeta) },
			utils.ValidateRayJobSpec,
		)
	case "RayService":
		return judge(line,
			func(service *rayv1.RayService) error { return utils.ValidateRayServiceMetadata(service.ObjectMeta) },
			utils.ValidateRayServiceSpec,
		)
	}
	return fmt.Errorf("no kind of Ray's: %q", head.Kind)
}

func judge[Object any](line []byte, rules ...func(*Object) error) error {
	var object Object
	if err := json.Unmarshal(line, &object); err != nil {
		return err
	}
	for _, rule := range rules {
		if err := rule(&object); err != nil {
			return err
		}
	}
	return nil
}
