package main

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/kueue/pkg/features"
)

// gates are Kueue's feature gates, with the one at hand that Kueue looks up twice for each two candidates of a preemption
// that it compares. The lookup takes several maps otherwise, and a fifth of the time of a replay.
type gates struct {
	featuregate.FeatureGate

	boosts bool
}

func (g gates) Enabled(name featuregate.Feature) bool {
	if name == features.PriorityBoost {
		return g.boosts
	}
	return g.FeatureGate.Enabled(name)
}

// keepGates is called when no gate changes any more.
func keepGates() {
	known := utilfeature.DefaultMutableFeatureGate
	utilfeature.DefaultFeatureGate = gates{FeatureGate: known, boosts: known.Enabled(features.PriorityBoost)}
}
