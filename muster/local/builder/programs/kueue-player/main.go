// Plays jobs through Kueue's own scheduler in logical time.
//
// Kueue's scheduler, queue manager, cache and Workload event handlers run unmodified in this process, over an
// in-memory client and a clock that jumps from event to event. What happens to a job outside Kueue is played here:
// it arrives, it ends after its duration, and it gives its quota back after an eviction.
//
// The first line of standard input is a world (world.go), every other line a job. Standard output has a line for each
// job, in the same order, and a summary. A world that cannot be played ends with exit code 2 and a line on standard error.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"runtime/pprof"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

const (
	// Most of what a cycle allocates is garbage when it ends: it is collected when the limit of memory is near.
	collectAt = 400
	// Where to write a CPU profile.
	profileVariable = "MUSTER_PLAYER_PROFILE"
)

func main() {
	go endWithReader()
	debug.SetGCPercent(collectAt)
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	stop := profile()
	err := run()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		var unplayable unplayableError
		if errors.As(err, &unplayable) {
			os.Exit(2)
		}
		os.Exit(3)
	}
}

func run() error {
	world, jobs, err := read(os.Stdin)
	if err != nil {
		return err
	}
	debug.SetMemoryLimit(world.MemoryMiB << 20)
	engine, err := newEngine(world)
	if err != nil {
		return err
	}
	player := newPlayer(engine, world, jobs)
	if err := player.play(); err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	if err := player.record.write(out, jobs); err != nil {
		return err
	}
	return out.Flush()
}

func profile() func() {
	path := os.Getenv(profileVariable)
	if path == "" {
		return func() {}
	}
	file, err := os.Create(path)
	if err != nil {
		return func() {}
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return func() {}
	}
	return func() {
		pprof.StopCPUProfile()
		file.Close()
	}
}
