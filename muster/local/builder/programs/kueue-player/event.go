package main

import "cmp"

// eventKind also orders the events of one moment. Quota that was released a second ago is offered before more is: each
// release has its own second.
type eventKind int

const (
	requeue eventKind = iota
	end
	release
	arrival
)

// eventAt is something that happens to a job. `run` is the number of the run that ends.
type eventAt struct {
	at   moment
	kind eventKind
	job  *job
	run  int
}

// events is a container/heap: the next event first, equal ones by the job's number.
type events []eventAt

func (e events) Len() int { return len(e) }

func (e events) Less(a, b int) bool {
	return cmp.Or(
		cmp.Compare(e[a].at, e[b].at),
		cmp.Compare(e[a].kind, e[b].kind),
		cmp.Compare(e[a].number(), e[b].number()),
	) < 0
}

func (e events) Swap(a, b int) { e[a], e[b] = e[b], e[a] }

func (e *events) Push(each any) { *e = append(*e, each.(eventAt)) }

func (e *events) Pop() any {
	last := len(*e) - 1
	found := (*e)[last]
	(*e)[last] = eventAt{}
	*e = (*e)[:last]
	return found
}

func (e eventAt) number() int {
	if e.job == nil {
		return 0
	}
	return e.job.number
}
