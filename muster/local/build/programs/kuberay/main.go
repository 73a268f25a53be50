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
		var cluster rayv1.RayCluster
		if err := json.Unmarshal(line, &cluster); err != nil {
			return err
		}
		return first(
			func() error { return utils.ValidateRayClusterMetadata(cluster.ObjectMeta) },
			func() error { return utils.ValidateRayClusterSpec(&cluster.Spec, cluster.Annotations) },
			func() error { return utils.ValidateRayClusterUpgradeOptions(&cluster) },
		)
	case "RayJob":
		var job rayv1.RayJob
		if err := json.Unmarshal(line, &job); err != nil {
			return err
		}
		return first(
			func() error { return utils.ValidateRayJobMetadata(job.ObjectMeta) },
			func() error { return utils.ValidateRayJobSpec(&job) },
		)
	case "RayService":
		var service rayv1.RayService
		if err := json.Unmarshal(line, &service); err != nil {
			return err
		}
		return first(
			func() error { return utils.ValidateRayServiceMetadata(service.ObjectMeta) },
			func() error { return utils.ValidateRayServiceSpec(&service) },
		)
	}
	return fmt.Errorf("no kind of Ray's: %q", head.Kind)
}

func first(rules ...func() error) error {
	for _, rule := range rules {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}
