package main

import "cmp"

// eventKind also orders the events of one second.
type eventKind int

const (
	// KAI looks again, because a time of its own is over.
	look eventKind = iota
	end
	release
	arrival
)

// event is something that happens to a job. `run` is the number of the run that ends.
type event struct {
	second int64
	kind   eventKind
	job    *job
	run    int
}

// events is a container/heap: the next event first, equal ones by the job's number.
type events []event

func (e events) Len() int { return len(e) }

func (e events) Less(a, b int) bool {
	return cmp.Or(
		cmp.Compare(e[a].second, e[b].second),
		cmp.Compare(e[a].kind, e[b].kind),
		cmp.Compare(e[a].number(), e[b].number()),
	) < 0
}

func (e events) Swap(a, b int) { e[a], e[b] = e[b], e[a] }

func (e *events) Push(each any) { *e = append(*e, each.(event)) }

func (e *events) Pop() any {
	last := len(*e) - 1
	found := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return found
}

func (e event) number() int {
	if e.job == nil {
		return 0
	}
	return e.job.number
}
