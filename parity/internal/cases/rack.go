package cases

import (
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// Rack draws the devices of a running cluster, and claims for its pods.
type Rack struct{ hardware *hardware }

// NewRack draws the initial objects, and labels the nodes.
func NewRack(r *rand.Rand, nodes []*v1.Node) *Rack {
	h := &hardware{r: r, tc: &Case{Cluster: oracle.Cluster{Nodes: nodes}}, traits: shares | counters | taints | lists | matches | updates, alike: 80}
	if chance(r, 60) {
		h.fleet()
	}
	h.label()
	h.classes()
	for _, n := range nodes {
		h.local(n)
	}
	for range 2 + r.IntN(5) {
		h.wide()
	}
	h.rules()
	return &Rack{h}
}

// Claim gives a pod claims for devices, mostly not shared.
func (k *Rack) Claim(p *v1.Pod) {
	h := k.hardware
	h.claims = h.claims[max(0, len(h.claims)-8):] // shareable in future
	h.use(p, []naming{byName, byTemplate, byTemplate, byTemplate, another, needless}, []standing{fresh})
}

// Drawn returns the objects drawn since the last call.
func (k *Rack) Drawn() []runtime.Object {
	all := k.hardware.tc.Devices
	k.hardware.tc.Devices = nil
	for i := range all {
		all[i] = all[i].DeepCopyObject()
	}
	return all
}

// Change draws a new version or the deletion of one of the objects. Both results are nil
// if nothing can change.
func (k *Rack) Change(now []runtime.Object) (changed, gone runtime.Object) {
	h := k.hardware
	now = slices.DeleteFunc(slices.Clone(now), func(o runtime.Object) bool {
		switch o.(type) {
		case *resourcev1.ResourceSlice, *resourcev1.DeviceTaintRule, *resourcev1.DeviceClass:
			return false
		}
		return true
	})
	if len(now) == 0 {
		return nil, nil
	}
	switch o := pick(h.r, now...).DeepCopyObject().(type) {
	case *resourcev1.ResourceSlice:
		// Allocated devices with counters stay published; see TestDifferences.
		if chance(h.r, 25) && !slices.ContainsFunc(o.Spec.Devices, func(d resourcev1.Device) bool { return len(d.ConsumesCounters) > 0 }) {
			return nil, o
		}
		for i := range o.Spec.Devices {
			if chance(h.r, 40) {
				o.Spec.Devices[i].Taints = nil
			} else if chance(h.r, 20) {
				o.Spec.Devices[i].Taints = append(o.Spec.Devices[i].Taints, h.taint())
			}
		}
		return o, nil
	case *resourcev1.DeviceTaintRule:
		if chance(h.r, 60) {
			return nil, o
		}
		o.Spec.Taint = h.taint()
		return o, nil
	case *resourcev1.DeviceClass:
		h.rules() // classes stay
	}
	return nil, nil
}
