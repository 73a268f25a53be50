// Enforces NetworkPolicies in the network namespace that all nodes of a local cluster share.
//
// The kernel queues the first packet of every connection to this process, which accepts or drops it. The rules
// that queue them belong to the supervisor of the cluster. What a policy allows is decided by
// sigs.k8s.io/kube-network-policies. Its own command is not used: it queues packets by the nftables statement
// `queue`, which not every kernel has, and it expects one network namespace for each node.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/florianl/go-nfqueue/v2"
	"github.com/mdlayher/netlink"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/network"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	"sigs.k8s.io/kube-network-policies/pkg/podinfo"
)

const (
	// linux/netfilter.h, enum nf_inet_hooks.
	hookLocalIn = 1
	headers     = 128
	queueLength = 1024
	// A kubelet reports the address of a pod up to a second or two after the pod's containers have begun to run.
	// Their packets wait that long. TCP sends a dropped one again, a lookup in DNS fails.
	patience = 5 * time.Second
	glance   = 20 * time.Millisecond
	// Packets that wait take places of the queue: most of the queue stays free for those that need not.
	mostWaiting = queueLength / 4
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	kubeconfig := flag.String("kubeconfig", "", "credentials that read pods, namespaces and NetworkPolicies")
	queue := flag.Uint("queue", 100, "number of the queue that the rules name")
	pods := flag.String("pods", "", "address range of the pods, such as 10.244.0.0/16")
	flag.Parse()
	cidr, err := netip.ParsePrefix(*pods)
	if err != nil {
		return err
	}
	judge, err := newJudge(ctx, *kubeconfig, cidr)
	if err != nil {
		return err
	}
	return judge.serve(ctx, uint16(*queue))
}

// A judge decides about packets. The waiting channel has a place for each packet that waits for its pod.
type judge struct {
	engine  *networkpolicy.PolicyEngine
	pods    api.PodInfoProvider
	cidr    netip.Prefix
	waiting chan struct{}
	logs    *rate.Limiter
	queue   *nfqueue.Nfqueue
}

func newJudge(ctx context.Context, kubeconfig string, cidr netip.Prefix) (*judge, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(withoutManagedFields))
	pods, namespaces := factory.Core().V1().Pods(), factory.Core().V1().Namespaces()
	resolver, err := podinfo.NewInformerResolver(pods.Informer())
	if err != nil {
		return nil, err
	}
	provider := podinfo.NewInformerProvider(pods, namespaces, nil, []podinfo.IPResolver{resolver})
	// The name of a node only limits which pods get a rule of their own. Here one rule queues every connection.
	policies := networkpolicy.NewStandardNetworkPolicy("", namespaces, pods, factory.Networking().V1().NetworkPolicies())
	factory.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return nil, fmt.Errorf("%v were not read: %w", kind, context.Cause(ctx))
		}
	}
	return &judge{
		engine:  networkpolicy.NewPolicyEngine(provider, []api.PolicyEvaluator{policies}),
		pods:    provider,
		cidr:    cidr,
		waiting: make(chan struct{}, mostWaiting),
		// A pod that keeps trying does not fill the disk.
		logs: rate.NewLimiter(rate.Every(time.Second), 20),
	}, nil
}

// withoutManagedFields leaves out what is the larger part of many an object and decides nothing.
func withoutManagedFields(object any) (any, error) {
	if found, err := meta.Accessor(object); err == nil {
		found.SetManagedFields(nil)
	}
	return object, nil
}

// serve binds the queue and answers until the context ends or the queue fails.
func (j *judge) serve(ctx context.Context, number uint16) error {
	queue, err := nfqueue.Open(&nfqueue.Config{
		NfQueue:      number,
		Flags:        nfqueue.NfQaCfgFlagGSO,
		MaxPacketLen: headers,
		MaxQueueLen:  queueLength,
		Copymode:     nfqueue.NfQnlCopyPacket,
		WriteTimeout: 100 * time.Millisecond,
	})
	if err != nil {
		return fmt.Errorf("netfilter's queues cannot be opened: %w", err)
	}
	defer queue.Close()
	j.queue = queue
	// A full socket buffer loses packets, which are sent again. It is no reason to stop.
	if err := queue.SetOption(netlink.NoENOBUFS, true); err != nil {
		return err
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	err = queue.RegisterWithErrorFunc(ctx, j.judge, func(err error) int {
		var problem *netlink.OpError
		if errors.As(err, &problem) && (problem.Timeout() || problem.Temporary()) {
			return 0
		}
		fail(err)
		return 1
	})
	if err != nil {
		return fmt.Errorf("queue %d of netfilter: %w", number, err)
	}
	fmt.Printf("NetworkPolicies are enforced: queue %d\n", number)
	<-ctx.Done()
	return context.Cause(ctx)
}

// judge answers at once when the packet's pods are known, and otherwise as soon as they are.
func (j *judge) judge(found nfqueue.Attribute) int {
	if found.PacketID == nil {
		return 0
	}
	id := *found.PacketID
	if found.Payload == nil {
		j.answer(id, false)
		return 0
	}
	packet, err := network.ParsePacket(*found.Payload)
	if err != nil {
		j.answer(id, false)
		return 0
	}
	packet.ID = id
	isForNode := found.Hook != nil && *found.Hook == hookLocalIn
	if j.knows(&packet, isForNode) {
		j.answer(id, j.allows(&packet))
		return 0
	}
	select {
	case j.waiting <- struct{}{}:
		go j.judgeLater(packet, isForNode)
	default:
		j.answer(id, false)
	}
	return 0
}

// judgeLater drops the packet when no pod is reported that has its address.
func (j *judge) judgeLater(packet network.Packet, isForNode bool) {
	defer func() { <-j.waiting }()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(glance) {
		if j.knows(&packet, isForNode) {
			j.answer(packet.ID, j.allows(&packet))
			return
		}
	}
	j.answer(packet.ID, false)
}

// knows is whether each end of the packet that is a pod's address belongs to a reported pod.
func (j *judge) knows(packet *network.Packet, isForNode bool) bool {
	return j.isKnown(packet.SrcIP.String()) && (isForNode || j.isKnown(packet.DstIP.String()))
}

func (j *judge) isKnown(ip string) bool {
	address, err := netip.ParseAddr(ip)
	if err != nil || !j.cidr.Contains(address) {
		return err == nil
	}
	_, found := j.pods.GetPodInfoByIP(ip)
	return found
}

func (j *judge) allows(packet *network.Packet) bool {
	allowed, err := j.engine.EvaluatePacket(context.Background(), packet)
	if err == nil && !allowed && j.logs.Allow() {
		fmt.Printf("denied: %s %s:%d -> %s:%d\n", packet.Proto, j.name(packet.SrcIP.String()), packet.SrcPort, j.name(packet.DstIP.String()), packet.DstPort)
	}
	return err == nil && allowed
}

func (j *judge) name(ip string) string {
	if pod, found := j.pods.GetPodInfoByIP(ip); found {
		return fmt.Sprintf("%s/%s[%s]", pod.Namespace.Name, pod.Name, ip)
	}
	return ip
}

func (j *judge) answer(id uint32, allowed bool) {
	verdict := nfqueue.NfDrop
	if allowed {
		verdict = nfqueue.NfAccept
	}
	if err := j.queue.SetVerdict(id, verdict); err != nil {
		fmt.Fprintf(os.Stderr, "packet %d got no answer: %v\n", id, err)
	}
}
