// Runs the actions of KAI's own scheduler over a snapshot of a cluster, round after round, until nothing changes.
//
// KAI's cache, session, plugins and actions run unmodified in this process, over fake clients. What happens outside the
// scheduler is played here: a bound pod runs, an evicted pod goes (and comes back where the world says so), and a pod
// that was ending has ended.
//
// Standard input is a world (world.go), standard output the decisions (outcome.go), each one JSON document. A world that
// cannot be played ends with exit code 2 and a line on standard error.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/plugins"
)

func main() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		var unplayable unplayableError
		if errors.As(err, &unplayable) {
			os.Exit(2)
		}
		os.Exit(3)
	}
}

func run(source io.Reader, target io.Writer) error {
	actions.InitDefaultActions()
	plugins.InitDefaultPlugins()
	world, err := read(source)
	if err != nil {
		return err
	}
	outcome, err := newPlayer(world).play()
	if err != nil {
		return err
	}
	return json.NewEncoder(target).Encode(outcome)
}
