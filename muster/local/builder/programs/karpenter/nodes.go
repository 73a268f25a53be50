package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/karpenter/kwok/apis/v1alpha1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

const (
	// A NodePool whose nodes have machines sets it in its template; the simulated cloud starts the machine.
	machine      = "localplane.muster.dev/vm"
	providerKind = "kwok://"
)

// nodes is the client with which KWOK's provider makes Node objects. A node gets the name of its NodeClaim: the
// provider's own is too long for the sockets of a kubelet.
type nodes struct {
	client.Client
}

func (n nodes) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	node, isNode := object.(*corev1.Node)
	if !isNode {
		return n.Client.Create(ctx, object, options...)
	}
	node = node.DeepCopy()
	node.Name = node.Labels[corev1.LabelHostname]
	node.Spec.ProviderID = providerKind + node.Name
	if node.Annotations[machine] != "" {
		// Otherwise the scheduler would take it before its kubelet speaks.
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, Reason: "MachineStarts", LastTransitionTime: metav1.Now(),
		}}
	}
	leaveToItsMachine(node.Annotations)
	if ctx.Err() != nil {
		return ctx.Err() // The instance ended while it booted.
	}
	if err := n.Client.Create(context.WithoutCancel(ctx), node, options...); err != nil || ctx.Err() == nil {
		return err
	}
	return n.remove(ctx, node.Name) // It ended while its node was written.
}

// remove takes away the node of an instance that has ended, as the node lifecycle controller of a cloud does.
func (n nodes) remove(ctx context.Context, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return client.IgnoreNotFound(n.Client.Delete(context.WithoutCancel(ctx), node))
}

// rename gives what Karpenter hears of an instance the names that its node has.
func rename(made *v1.NodeClaim, name string) {
	made.Name, made.Status.NodeName, made.Status.ProviderID = name, name, providerKind+name
	leaveToItsMachine(made.Annotations)
}

// leaveToItsMachine keeps KWOK away from a node on which a kubelet runs.
func leaveToItsMachine(annotations map[string]string) {
	if annotations[machine] != "" {
		delete(annotations, v1alpha1.KwokLabelKey)
	}
}
