package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/scheduling"
)

const (
	configMap      = "karpenter-cloud"
	unavailableFor = 3 * time.Minute
	launch         = time.Second
)

// cloud is KWOK's provider with a stock.
type cloud struct {
	*kwok.CloudProvider
	nodes  nodes
	reader client.Reader
	types  []*cloudprovider.InstanceType

	lock      sync.Mutex
	instances map[string]instance  // by provider ID; nil until those of an earlier run have been read
	refused   map[string]time.Time // when an offering may be asked for again
}

// instance is one that was bought and not yet ended.
type instance struct {
	offering string
	callOff  context.CancelFunc // of its boot; nil for one of an earlier run
}

// choice is one of an instance type's offerings.
type choice struct {
	instanceType *cloudprovider.InstanceType
	offering     *cloudprovider.Offering
}

func (c choice) key() string { return c.instanceType.Name + "_" + c.offering.Zone() }

func newCloud(ctx context.Context, nodes nodes, reader client.Reader, types []*cloudprovider.InstanceType) *cloud {
	return &cloud{
		CloudProvider: kwok.NewCloudProvider(ctx, nodes, types),
		nodes:         nodes,
		reader:        reader,
		types:         types,
		refused:       map[string]time.Time{},
	}
}

// Create buys the cheapest offering in stock that fits. Those before it that are out of stock are refused.
func (c *cloud) Create(ctx context.Context, claim *v1.NodeClaim) (*v1.NodeClaim, error) {
	config, err := c.config(ctx)
	if err != nil {
		return nil, err
	}
	time.Sleep(duration(config, "launch", launch))
	if text := config["error"]; text != "" {
		return nil, fmt.Errorf("creating instance, %s", text)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	if err := c.remember(ctx); err != nil {
		return nil, err
	}
	var refusals []string
	for _, each := range c.choices(claim) {
		if c.inStock(config, each.key()) {
			return c.launch(ctx, claim, each)
		}
		c.refused[each.key()] = time.Now().Add(duration(config, "unavailable-for", unavailableFor))
		refusals = append(refusals, fmt.Sprintf("InsufficientInstanceCapacity: there is no %s in %s at the moment",
			each.instanceType.Name, each.offering.Zone()))
	}
	if len(refusals) == 0 {
		refusals = []string{"all requested instance types were unavailable during launch"}
	}
	return nil, cloudprovider.NewInsufficientCapacityError(errors.New("with fleet error(s), " + strings.Join(refusals, "; ")))
}

// Delete ends the instance, also one that boots. Karpenter calls it once the node is gone, or before it has seen one.
func (c *cloud) Delete(ctx context.Context, claim *v1.NodeClaim) error {
	c.lock.Lock()
	defer c.lock.Unlock()
	if held, found := c.instances[claim.Status.ProviderID]; found && held.callOff != nil {
		held.callOff()
	}
	delete(c.instances, claim.Status.ProviderID)
	if err := c.nodes.remove(ctx, strings.TrimPrefix(claim.Status.ProviderID, providerKind)); err != nil {
		return err
	}
	return c.CloudProvider.Delete(ctx, claim)
}

// GetInstanceTypes marks what was refused a short while ago as unavailable.
func (c *cloud) GetInstanceTypes(_ context.Context, _ *v1.NodePool) ([]*cloudprovider.InstanceType, error) {
	c.lock.Lock()
	defer c.lock.Unlock()
	now, shown := time.Now(), make([]*cloudprovider.InstanceType, 0, len(c.types))
	for _, each := range c.types {
		offerings := make(cloudprovider.Offerings, 0, len(each.Offerings))
		for _, offering := range each.Offerings {
			offerings = append(offerings, &cloudprovider.Offering{
				Requirements: offering.Requirements,
				Price:        offering.Price,
				Available:    now.After(c.refused[choice{each, offering}.key()]),
			})
		}
		shown = append(shown, &cloudprovider.InstanceType{
			Name:         each.Name,
			Requirements: each.Requirements,
			Offerings:    offerings,
			Capacity:     each.Capacity,
			Overhead:     each.Overhead,
		})
	}
	return shown, nil
}

// choices are the offerings that fit and are not known to be unavailable, cheapest first.
func (c *cloud) choices(claim *v1.NodeClaim) []choice {
	wanted := scheduling.NewNodeSelectorRequirementsWithMinValues(claim.Spec.Requirements...)
	var found []choice
	for _, each := range c.types {
		if !wanted.Get(corev1.LabelInstanceTypeStable).Has(each.Name) {
			continue
		}
		for _, offering := range each.Offerings.Compatible(wanted) {
			if time.Now().After(c.refused[choice{each, offering}.key()]) {
				found = append(found, choice{each, offering})
			}
		}
	}
	sort.SliceStable(found, func(a, b int) bool { return found[a].offering.Price < found[b].offering.Price })
	return found
}

func (c *cloud) inStock(config map[string]string, key string) bool {
	stock, bounded := config[key]
	if !bounded {
		return true
	}
	most, err := strconv.Atoi(stock)
	used := 0
	for _, each := range c.instances {
		if each.offering == key {
			used++
		}
	}
	return err == nil && used < most
}

// launch lets KWOK's provider make the node, of this offering alone.
func (c *cloud) launch(ctx context.Context, claim *v1.NodeClaim, chosen choice) (*v1.NodeClaim, error) {
	narrowed := claim.DeepCopy()
	picked := map[string]string{
		corev1.LabelInstanceTypeStable: chosen.instanceType.Name,
		corev1.LabelTopologyZone:       chosen.offering.Zone(),
		v1.CapacityTypeLabelKey:        chosen.offering.CapacityType(),
	}
	narrowed.Spec.Requirements = nil
	for _, each := range claim.Spec.Requirements {
		if picked[each.Key] == "" {
			narrowed.Spec.Requirements = append(narrowed.Spec.Requirements, each)
		}
	}
	for key, value := range picked {
		narrowed.Spec.Requirements = append(narrowed.Spec.Requirements, v1.NodeSelectorRequirementWithMinValues{
			Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
		})
	}
	boot, callOff := context.WithCancel(context.WithoutCancel(ctx))
	made, err := c.CloudProvider.Create(boot, narrowed)
	if err != nil {
		callOff()
		return nil, err
	}
	rename(made, claim.Name)
	c.instances[made.Status.ProviderID] = instance{offering: chosen.key(), callOff: callOff}
	return made, nil
}

// remember takes over the instances of an earlier run, once.
func (c *cloud) remember(ctx context.Context) error {
	if c.instances != nil {
		return nil
	}
	standing, err := c.List(ctx)
	if err != nil {
		return err
	}
	c.instances = map[string]instance{}
	for _, each := range standing {
		labels := each.Labels
		key := labels[corev1.LabelInstanceTypeStable] + "_" + labels[corev1.LabelTopologyZone]
		c.instances[each.Status.ProviderID] = instance{offering: key}
	}
	return nil
}

func (c *cloud) config(ctx context.Context) (map[string]string, error) {
	found := &corev1.ConfigMap{}
	name := types.NamespacedName{Namespace: os.Getenv("SYSTEM_NAMESPACE"), Name: configMap}
	if err := c.reader.Get(ctx, name, found); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return found.Data, nil
}

func duration(config map[string]string, key string, usual time.Duration) time.Duration {
	if said, err := time.ParseDuration(config[key]); err == nil {
		return said
	}
	return usual
}

var _ cloudprovider.CloudProvider = &cloud{}
