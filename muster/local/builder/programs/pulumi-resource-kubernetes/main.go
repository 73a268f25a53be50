// The Pulumi Kubernetes provider plugin, built from its own module.
//
// The published binary embeds two large JSON documents (the Pulumi schema and
// Terraform name mappings) that only SDK generation reads; the engine never
// asks for them while it runs a program, so empty ones serve.
package main

import "github.com/pulumi/pulumi-kubernetes/provider/v4/pkg/provider"

// version is stamped at build time (-X main.version=...).
var version = "0.0.0"

func main() {
	provider.Serve("kubernetes", version, []byte("{}"), []byte("{}"))
}
