// Karpenter as it is released, in front of a stand-in for the cloud.
//
// The controller is the real one. Its KWOK provider makes Node objects and never lacks anything; the cloud here
// adds what a cloud has besides: a stock for each instance type and zone, refusals, and boots that can be
// called off. As the provider for AWS does, it takes an offering that was refused for unavailable for a while,
// three minutes unless it is told otherwise (UnavailableOfferingsTTL in pkg/cache of karpenter-provider-aws).
//
// The ConfigMap karpenter-cloud in Karpenter's own namespace is read at every purchase:
//
//	data:
//	  p5.48xlarge_zone-a: "2"     instances that the cloud has in all; without bound where nothing is said
//	  unavailable-for: 10s        how long a refused offering is not asked for again
//	  launch: 1s                  how long a purchase takes
//	  error: Throttling           every purchase fails with this
//
// How long an instance boots is in the KWOKNodeClass (nodeRegistrationDelay). KWOK keeps the nodes alive, except where
// the NodePool's template has the annotation localplane.muster.dev/vm: there another program starts a kubelet.
package main

import (
	"os"

	"sigs.k8s.io/controller-runtime/pkg/log"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/operator"
)

func main() {
	ctx, op := operator.NewOperator()
	types, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "the file of instance types cannot be used")
		os.Exit(2)
	}
	bare := newCloud(ctx, nodes{op.GetClient()}, op.GetAPIReader(), types)
	decorated := overlay.Decorate(bare, op.GetClient(), op.InstanceTypeStore)
	cluster := state.NewCluster(op.Clock, op.GetClient(), decorated)
	op.WithControllers(ctx, controllers.NewControllers(
		ctx, op.Manager, op.Clock, op.GetClient(), op.EventRecorder, decorated, bare, cluster, op.InstanceTypeStore, op.PredictionStore,
	)...).Start(ctx)
}
