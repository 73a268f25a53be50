// Writes the TypeScript SDK of a schema, as `pulumi package add` does: the schema on standard input, the folder as
// the argument. The generator is the publisher's; its language host, which has it too, is not to be had as a module.
package main

import (
	"encoding/json"
	"log"
	"os"
	"path/filepath"

	"github.com/pulumi/pulumi/pkg/v3/codegen/nodejs"
	"github.com/pulumi/pulumi/pkg/v3/codegen/schema"
)

func main() {
	log.SetFlags(0)
	var spec schema.PackageSpec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		log.Fatalf("the schema on standard input cannot be read: %v", err)
	}
	pkg, err := schema.ImportSpec(spec, nil, schema.ValidationOptions{})
	if err != nil {
		log.Fatal(err)
	}
	pkg.SupportPack = true
	files, err := nodejs.GeneratePackage("pulumi", pkg, nil, nil, true, nil)
	if err != nil {
		log.Fatal(err)
	}
	for name, content := range files {
		path := filepath.Join(os.Args[1], name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			log.Fatal(err)
		}
	}
}
