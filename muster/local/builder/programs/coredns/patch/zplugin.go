// Replaces core/plugin/zplugin.go of github.com/coredns/coredns while it is built.
//
// The original links every plugin, among them the clients of three clouds. These are the plugins that the Corefile
// of the local cluster names (muster/local/cluster/network.py), and `log` and `metrics` for debugging.
package plugin

import (
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)
