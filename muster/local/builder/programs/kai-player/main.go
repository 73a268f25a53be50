// Runs the actions of KAI's own scheduler over work of a cluster.
//
// KAI's cache, session, plugins and actions run unmodified in this process, without an API server (engine.go). What
// happens outside the scheduler is played here: a bound pod runs, an evicted pod goes (and comes back where the world
// says so), and a pod that was ending has ended.
//
// Without an argument it plays a snapshot, round after round, until nothing changes: standard input is a world
// (world.go), standard output the decisions (outcome.go), each one JSON document.
//
// With the argument `replay` it plays jobs in logical time: the clock jumps from event to event (replay.go). The first
// line of standard input is a course (job.go), every other line a job. Standard output has a line for each job, in the
// same order, and a summary (record.go), as that of kueue-player.
//
// What cannot be played ends with exit code 2 and a line on standard error.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/actions"
	"github.com/NVIDIA/KAI-scheduler/pkg/scheduler/plugins"
)

const (
	replayArgument = "replay"
	// Most of what a session allocates is garbage when it ends.
	collectAt = 400
)

func main() {
	go endWithReader()
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	actions.InitDefaultActions()
	plugins.InitDefaultPlugins()
	play := playWorld
	if slices.Contains(os.Args[1:], replayArgument) {
		play = playCourse
	}
	if err := play(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		var unplayable unplayableError
		if errors.As(err, &unplayable) {
			os.Exit(2)
		}
		os.Exit(3)
	}
}

func playCourse(source io.Reader, target io.Writer) error {
	debug.SetGCPercent(collectAt)
	course, jobs, err := readCourse(source)
	if err != nil {
		return err
	}
	replay, err := newReplay(course, jobs)
	if err != nil {
		return err
	}
	if err := replay.play(); err != nil {
		return err
	}
	out := bufio.NewWriter(target)
	if err := replay.record.write(out, jobs, replay.reasons(), replay.now); err != nil {
		return err
	}
	return out.Flush()
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func playWorld(source io.Reader, target io.Writer) error {
	world, err := read(source)
	if err != nil {
		return err
	}
	player, err := newPlayer(world)
	if err != nil {
		return err
	}
	outcome, err := player.play()
	if err != nil {
		return err
	}
	return json.NewEncoder(target).Encode(outcome)
}
