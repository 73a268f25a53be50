// A stand-in for the program in KAI's GPU reservation pods, on nodes whose GPUs are simulated.
//
// Such a pod holds a whole GPU for the pods that share it. KAI's own program asks NVML for the device that
// its pod got, and writes its UUID on the pod, where KAI's binder waits for it (KAI 0.12.0,
// pkg/resourcereservation). Here there is no NVML: the device is named after the pod, as no other pod has it.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if err := report("simulated-" + os.Getenv("POD_NAME")); err != nil {
		fmt.Println(err)
		os.Exit(1) // The kubelet starts it again.
	}
	<-signals
}

// report writes the device on this process's own pod.
func report(device string) error {
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return err
	}
	authority, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return err
	}
	server := net.JoinHostPort(os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	pod := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", os.Getenv("POD_NAMESPACE"), os.Getenv("POD_NAME"))
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"run.ai/reserve_for_gpu_index":%q}}}`, device)
	request, err := http.NewRequest(http.MethodPatch, "https://"+server+pod, bytes.NewBufferString(patch))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	request.Header.Set("Content-Type", "application/merge-patch+json")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		answer, _ := io.ReadAll(response.Body)
		return fmt.Errorf("%s: %s", response.Status, answer)
	}
	fmt.Println("reported", device)
	return nil
}
