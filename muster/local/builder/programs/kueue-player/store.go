package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// store takes the place of the API server and of the informers' caches. It implements what Kueue's scheduler calls for
// queues of plain quota; any other call ends the process with a nil pointer, which is better than a wrong decision.
type store struct {
	client.Client

	namespaces map[string]*corev1.Namespace

	// Kueue patches the victims of a preemption from several goroutines.
	lock      sync.Mutex
	workloads map[types.NamespacedName]*kueue.Workload
	changes   map[types.NamespacedName]change
}

// change is a Workload before the first and after the last patch since changes were last taken.
type change struct{ before, after *kueue.Workload }

func newStore(namespaces map[string]*corev1.Namespace) *store {
	return &store{
		namespaces: namespaces,
		workloads:  map[types.NamespacedName]*kueue.Workload{},
		changes:    map[types.NamespacedName]change{},
	}
}

// Get copies Workloads, because Kueue changes what it got.
func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch object := into.(type) {
	case *kueue.Workload:
		s.lock.Lock()
		defer s.lock.Unlock()
		found := s.workloads[key]
		if found == nil {
			return apierrors.NewNotFound(kueue.Resource("workloads"), key.Name)
		}
		found.DeepCopyInto(object)
	case *corev1.Namespace:
		found := s.namespaces[key.Name]
		if found == nil {
			return apierrors.NewNotFound(corev1.Resource("namespaces"), key.Name)
		}
		*object = *found
	default:
		return fmt.Errorf("the player has no %T", into)
	}
	return nil
}

// List finds nothing: there are no LimitRanges, and queues and Workloads are added in the order that Kueue expects.
func (s *store) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func (s *store) Status() client.SubResourceWriter { return statusWriter{store: s} }

type statusWriter struct {
	client.SubResourceWriter
	store *store
}

// Patch applies the status that Kueue's admission manager owns, which is always sent as a whole. As on the API server,
// times keep whole seconds: they do, since the clock shows no others.
func (w statusWriter) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	applied, ok := object.(*kueue.Workload)
	if !ok {
		return fmt.Errorf("the player does not patch %T", object)
	}
	s := w.store
	s.lock.Lock()
	defer s.lock.Unlock()
	key := client.ObjectKeyFromObject(applied)
	before := s.workloads[key]
	if before == nil {
		return apierrors.NewNotFound(kueue.Resource("workloads"), key.Name)
	}
	// What is stored is never changed, so old and new share the spec.
	after := *before
	applied.Status.DeepCopyInto(&after.Status)
	s.workloads[key] = &after
	if earlier, found := s.changes[key]; found {
		before = earlier.before
	}
	s.changes[key] = change{before: before, after: &after}
	*applied = after
	return nil
}

// take returns the changes since the last call, in the order of names, and forgets them.
func (s *store) take() []change {
	found := make([]change, 0, len(s.changes))
	for _, each := range s.changes {
		found = append(found, each)
	}
	clear(s.changes)
	slices.SortFunc(found, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.after.Namespace, b.after.Namespace), cmp.Compare(a.after.Name, b.after.Name))
	})
	return found
}

func (s *store) put(workload *kueue.Workload) {
	s.workloads[client.ObjectKeyFromObject(workload)] = workload
}

func (s *store) get(key types.NamespacedName) *kueue.Workload { return s.workloads[key] }

func (s *store) remove(key types.NamespacedName) { delete(s.workloads, key) }
