// An OCI registry on loopback that forgets everything when it ends: what images are pushed to in tests.
//
// The handlers are github.com/distribution/distribution's own. Its command is not used, because it links the
// storage of three clouds.
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/inmemory"
)

func main() {
	settings := &configuration.Configuration{Storage: configuration.Storage{"inmemory": configuration.Parameters{}}}
	settings.Log.Level = "error"
	settings.HTTP.Secret = "one process, one secret"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// Whoever started it reads its address here.
	fmt.Println(listener.Addr())
	server := &http.Server{Handler: handlers.NewApp(context.Background(), settings), ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, server.Serve(listener))
	os.Exit(1)
}
