package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
)

// requests returns a change for each resource: lower its request. The settings are the
// free amounts of nodes, from the largest amount below the request downwards. The largest
// amount that fits is always one of them, whatever other plugins reject.
func (t *trial) requests() []knob {
	var knobs []knob
	asks := &t.compiled.Asks
	names := []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage}
	for i := range asks.Scalars {
		names = append(names, v1.ResourceName(asks.Scalars[i].Name.Value()))
	}
	for _, name := range names {
		from := model.KeyOf(name).In(asks)
		if from == 0 {
			continue
		}
		amounts := t.freeAmounts(name, from, t.leastRequest(name))
		if len(amounts) == 0 {
			continue
		}
		knobs = append(knobs, knob{kind: Request, group: "request " + string(name), settings: len(amounts), at: func(setting int) Change {
			return t.lowered(name, from, amounts[setting])
		}})
	}
	return knobs
}

// leastRequest returns the pod's request if every container that requests some of the
// resource requests one unit.
func (t *trial) leastRequest(name v1.ResourceName) int64 {
	together, afterSidecars := concurrent(&t.Pod.Spec, name)
	return amountOf(name, t.Pod.Spec.Overhead[name]) + max(1, int64(len(together))+afterSidecars)*unitOf(name)
}

// unitOf returns the smallest amount of a resource that can be requested.
func unitOf(name v1.ResourceName) int64 {
	if size, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix); ok {
		if page, err := resource.ParseQuantity(size); err == nil {
			return max(1, page.Value())
		}
	}
	return 1
}

// freeAmounts returns the distinct free amounts of nodes in [least, below), in falling
// order. Each node counts with and without its nominated pods.
func (t *trial) freeAmounts(name v1.ResourceName, below, least int64) []int64 {
	key, view := model.KeyOf(name), t.State.View()
	var amounts []int64
	add := func(free int64) {
		if free >= least && free < below {
			amounts = append(amounts, free)
		}
	}
	var use state.Use
	for slot, alive := range t.State.Alive() {
		if !alive {
			continue
		}
		node := view.Node(int32(slot))
		allocatable := key.In(node.Allocatable())
		add(allocatable - key.In(node.Used()))
		if view.Nominated() > 0 {
			use.Reset(node)
			view.AddNominated(int32(slot), t.compiled.Priority, &use)
			if own, ok := view.NominatedTo(t.compiled.Key()); ok && own == int32(slot) {
				use.Add(t.compiled, -1)
			}
			add(allocatable - key.In(view.NodeWith(int32(slot), &use).Used()))
		}
	}
	slices.SortFunc(amounts, func(a, b int64) int { return cmp.Compare(b, a) })
	return slices.Compact(amounts)
}

// lowered returns the change that lowers the pod's total request of a resource.
func (t *trial) lowered(name v1.ResourceName, from, to int64) Change {
	probe := t.Pod.DeepCopy()
	cuts := lower(&probe.Spec, name, to)
	var text string
	switch {
	case len(cuts) == 1 && cuts[0].container == "":
		text = fmt.Sprintf("lower the %s request of the pod from %s to %s", name, cuts[0].from, cuts[0].to)
	case len(cuts) == 1:
		text = fmt.Sprintf("lower the %s request of container %s from %s to %s", name, cuts[0].container, cuts[0].from, cuts[0].to)
	default:
		var each []string
		for _, c := range cuts {
			of := "of container " + c.container
			if c.container == "" {
				of = "of the pod"
			}
			each = append(each, fmt.Sprintf("%s from %s to %s", of, c.from, c.to))
		}
		text = fmt.Sprintf("lower the %s requests %s", name, strings.Join(each, ", "))
	}
	change := t.ofPod(Request, (from-to)*1000/from, func(p *v1.Pod) { lower(&p.Spec, name, to) }, "%s", text)
	change.Resource, change.From, change.To = string(name), quantityOf(name, from), quantityOf(name, to)
	return change
}

// cut is a lowered request of a container, or of the pod if container is empty.
type cut struct{ container, from, to string }

// lower changes a spec so that the pod requests at most `most` of a resource in total,
// including overhead. most must be at least leastRequest. The largest requests of the
// containers are lowered first (share). The requests of init containers are limited to
// the amount that is left beside sidecars.
func lower(spec *v1.PodSpec, name v1.ResourceName, most int64) []cut {
	most -= amountOf(name, spec.Overhead[name])
	var cuts []cut
	// With pod-level requests, containers may not request more than the pod.
	if ofPod := spec.Resources; ofPod != nil && resourcehelper.IsSupportedPodLevelResource(name) {
		if asks, ok := ofPod.Requests[name]; ok && amountOf(name, asks) > most {
			cuts = set(cuts, "", ofPod, name, most)
		}
	}
	together, afterSidecars := concurrent(spec, name)
	slices.SortStableFunc(together, func(a, b *v1.Container) int { return cmp.Compare(requestOf(b, name), requestOf(a, name)) })
	asks := make([]int64, len(together))
	for i, c := range together {
		asks[i] = requestOf(c, name)
	}
	for i, left := range share(asks, most-afterSidecars*unitOf(name), unitOf(name)) {
		if left < asks[i] {
			cuts = set(cuts, together[i].Name, &together[i].Resources, name, left)
		}
	}
	var beside int64 // Requests of the sidecars before this container.
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		switch asks := requestOf(c, name); {
		case !isOrdinaryInit(spec, c):
			beside += asks
		case asks > most-beside:
			cuts = set(cuts, c.Name, &c.Resources, name, most-beside)
		}
	}
	return cuts
}

// share lowers requests, which are sorted, the largest first, until their sum is at most
// `most`. Example: 8, 4 and 1 with most 9 become 4, 4 and 1. Only the largest are
// lowered, as few as possible, if each keeps half of its request; otherwise all are.
// Lowered requests get the same amount, and each at least one unit.
func share(asks []int64, most, unit int64) []int64 {
	excess := -most
	for _, asked := range asks {
		excess += asked
	}
	if excess <= 0 {
		return asks
	}
	var of int64 // The sum of the requests that may be lowered.
	for n, asked := range asks {
		of += asked
		left := slices.Clone(asks)
		sane := level(left[:n+1], of-excess, unit)
		if sane || n == len(asks)-1 {
			return left
		}
	}
	return asks
}

// level lowers amounts, the largest first, to an equal amount with the given total. The
// largest gets the remainder. It reports whether each keeps half of its value.
func level(amounts []int64, total, unit int64) (sane bool) {
	sane = true
	for i := range slices.Backward(amounts) {
		n := int64(i) + 1
		left := total
		if i > 0 {
			left = total / n / unit * unit
		}
		left = min(amounts[i], left)
		sane = sane && left >= unit && 2*left >= amounts[i]
		total -= left
		amounts[i] = left
	}
	return sane
}

// concurrent returns the containers that request the resource and run at the same time.
// afterSidecars is 1 if all of them are sidecars, and an ordinary init container that
// requests the resource runs after one of them. One unit must then be left for that
// container.
func concurrent(spec *v1.PodSpec, name v1.ResourceName) (together []*v1.Container, afterSidecars int64) {
	for i := range spec.InitContainers {
		switch c := &spec.InitContainers[i]; {
		case requestOf(c, name) == 0:
		case !isOrdinaryInit(spec, c):
			together = append(together, c)
		case len(together) > 0:
			afterSidecars = 1
		}
	}
	for i := range spec.Containers {
		if c := &spec.Containers[i]; requestOf(c, name) > 0 {
			together, afterSidecars = append(together, c), 0
		}
	}
	return together, afterSidecars
}

// isOrdinaryInit reports whether a container of the spec ends before the main containers
// start.
func isOrdinaryInit(spec *v1.PodSpec, c *v1.Container) bool {
	for i := range spec.InitContainers {
		if init := &spec.InitContainers[i]; init == c {
			return init.RestartPolicy == nil || *init.RestartPolicy != v1.ContainerRestartPolicyAlways
		}
	}
	return false
}

// set sets a request, and the limit if both must be equal.
func set(cuts []cut, container string, of *v1.ResourceRequirements, name v1.ResourceName, to int64) []cut {
	from := of.Requests[name]
	of.Requests[name] = resource.MustParse(quantityOf(name, to))
	if _, limited := of.Limits[name]; limited && model.KeyOf(name).IsScalar() {
		of.Limits[name] = of.Requests[name]
	}
	return append(cuts, cut{container, from.String(), quantityOf(name, to)})
}

func requestOf(c *v1.Container, name v1.ResourceName) int64 {
	return amountOf(name, c.Resources.Requests[name])
}

// amountOf returns an amount in the scheduler's unit: millicores, bytes or whole units.
func amountOf(name v1.ResourceName, q resource.Quantity) int64 {
	if name == v1.ResourceCPU {
		return amount.Milli(q)
	}
	return amount.Whole(q)
}

// quantityOf is the inverse of amountOf, as text.
func quantityOf(name v1.ResourceName, value int64) string {
	switch {
	case name == v1.ResourceCPU:
		return resource.NewMilliQuantity(value, resource.DecimalSI).String()
	case name == v1.ResourceMemory, name == v1.ResourceEphemeralStorage, strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix):
		return resource.NewQuantity(value, resource.BinarySI).String()
	}
	return resource.NewQuantity(value, resource.DecimalSI).String()
}
