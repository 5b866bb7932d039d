package sequence

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// DeviceScripts returns the scripts with pods that have claims for devices. They have a
// third of the given number of pods.
func DeviceScripts(pods int) []Script {
	script := func(name, about string, change func(p *play)) Script {
		return Script{Name: name, About: about, draw: func(seed uint64) *play {
			return newPlay(name, seed, max(1, pods/3), func(p *play) { p.template, p.devices = p.any, true; change(p) })
		}}
	}
	return []Script{
		script("seq-devices", "pods with claims for devices, until there are none left", func(*play) {}),
		script("seq-device-churn", "the same while devices, rules, nodes and pods come, change and go", func(p *play) { p.changes = 6 }),
		script("seq-device-faults", "the same, fewer, with late events, and bindings and writes that fail", func(p *play) {
			p.pods /= 2
			p.changes = 4
			p.faults = simulate.Faults{
				MaxWatchDelay: 300 * time.Millisecond, MaxBindDelay: 500 * time.Millisecond,
				DuplicatePercent: 5, Requests: map[simulate.Fault]int{simulate.Conflict: 3, simulate.Unavailable: 3, simulate.Lost: 1},
			}
		}),
	}
}

// claim gives a pod claims, and creates the objects drawn for them.
func (p *play) claim(c *simulate.Cluster, pod *v1.Pod) error {
	if pod.UID == "" {
		// the owner of claims
		pod.UID = types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", p.r.Uint32(), p.made))
	}
	p.rack.Claim(pod)
	return p.createDevices(c)
}

func (p *play) createDevices(c *simulate.Cluster) error {
	for _, o := range p.rack.Drawn() {
		if err := c.SetObject(o); err != nil {
			return err
		}
	}
	return nil
}

// changeDevices changes devices, as drivers and administrators do.
func (p *play) changeDevices(c *simulate.Cluster) error {
	for range p.changes {
		changed, gone := p.rack.Change(c.Objects())
		if changed != nil {
			if err := c.SetObject(changed); err != nil {
				return err
			}
		}
		if gone != nil {
			if ref, ok := kinds.RefOf(gone); ok {
				c.DeleteObject(ref)
			}
		}
	}
	return p.createDevices(c)
}

// controlClaims does the work of the ResourceClaim controller. It removes reservations of
// deleted pods, deallocates claims without reservations, and deletes claims that were
// created for deleted pods.
func (p *play) controlClaims(c *simulate.Cluster) error {
	alive := map[types.UID]bool{}
	for _, pod := range c.Pods() {
		alive[pod.UID] = pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed
	}
	for _, o := range c.Objects() {
		claim, ok := o.(*resourcev1.ResourceClaim)
		if !ok {
			continue
		}
		if len(claim.OwnerReferences) > 0 && !alive[claim.OwnerReferences[0].UID] {
			ref, _ := kinds.RefOf(claim)
			c.DeleteObject(ref)
			continue
		}
		held := slices.DeleteFunc(slices.Clone(claim.Status.ReservedFor), func(r resourcev1.ResourceClaimConsumerReference) bool { return !alive[r.UID] })
		if len(held) == len(claim.Status.ReservedFor) {
			continue
		}
		claim = claim.DeepCopy()
		claim.Status.ReservedFor = held
		if len(held) == 0 {
			claim.Status, claim.Finalizers = resourcev1.ResourceClaimStatus{}, nil
		}
		if err := c.SetObject(claim); err != nil {
			return err
		}
	}
	return nil
}
