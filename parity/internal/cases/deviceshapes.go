package cases

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// devices configures a shape about devices.
type devices struct {
	base   func(r *rand.Rand) Case // nodes and pods; nil for plain ones
	traits trait
	wide   int // maximum number of pools that several nodes can use
	names  []naming
	from   []standing // for the claims of pending pods
	change func(h *hardware)
}

// DeviceShapes returns the shapes about devices.
func DeviceShapes() []Shape {
	plain := []naming{byName, byName, byTemplate, byTemplate, another}
	new := []standing{fresh}
	mostlyNew := []standing{fresh, fresh, fresh, fresh, unreserved, reservedForPod, reservedForOthers}
	given := []standing{fresh, fresh, unreserved, unreserved, unreserved, reservedForPod, reservedForPod, reservedForOthers, goneDevice}
	held := []naming{byName, byName, byTemplate, byTemplate, another, needless, unmade, stranger}
	everything := shares | counters | taints | prepared | lists | admin | matches | updates
	return []Shape{
		{"devices-local", "claims for devices of the node: classes, selectors, counts, incomplete and invalid pools", devices{traits: updates, names: plain, from: new}.draw},
		{"devices-wide", "devices that several nodes can use", devices{traits: updates, wide: 5, names: plain, from: mostlyNew}.draw},
		{"devices-lists", "alternatives and their scores, constraints", devices{traits: lists | matches, wide: 1, names: plain, from: mostlyNew}.draw},
		{"devices-shared-capacity", "devices that several claims share, and what of their capacity is left", devices{traits: shares | lists, wide: 2, names: plain, from: mostlyNew}.draw},
		{"devices-counters", "devices that are parts of others", devices{traits: counters | updates | lists, names: plain, from: mostlyNew}.draw},
		{"devices-taints", "taints on devices, rules, tolerations", devices{traits: taints | lists, wide: 1, names: plain, from: mostlyNew}.draw},
		{"devices-matched", "attributes that must be equal or differ", devices{traits: matches, wide: 2, names: plain, from: new}.draw},
		{"devices-all", "requests for all devices, and access for administrators", devices{traits: all | admin | updates, wide: 1, names: plain, from: mostlyNew}.draw},
		{"devices-allocated", "allocated claims, in the way or not, reserved for this pod and for others", devices{traits: lists | admin, wide: 2, names: plain, from: given}.draw},
		{"devices-conditions", "devices that must be prepared", devices{traits: prepared | shares, wide: 2, names: plain, from: []standing{fresh, conditional, conditional, conditional}}.draw},
		{"devices-held", "claims that hold their pod back", devices{names: held, from: append([]standing{deleted, deleted}, given...)}.draw},
		{"devices-errors", "selectors, classes and allocations that fail the cycle", devices{traits: fails | all | matches | lists | updates, wide: 1, names: plain,
			from: append([]standing{unreadable}, mostlyNew...)}.draw},
		{"devices-extended", "extended resources that classes stand for", devices{traits: updates | lists, wide: 1, names: plain, from: mostlyNew, change: extend}.draw},
		{"devices-nominated", "beside pods with a nominated node", devices{traits: lists | updates, wide: 1, names: plain, from: given, change: nominateForDevices}.draw},
		{"devices-mixed", "everything about devices, with everything else", devices{base: topology, traits: everything, wide: 2, names: slices.Concat(plain, plain, held),
			from: slices.Concat(given, new, new, []standing{conditional, deleted})}.draw},
		{"devices-crowd", "hundreds of nodes", devices{base: large, traits: lists | shares | matches, wide: 3, names: plain, from: mostlyNew}.draw},
	}
}

func (d devices) draw(r *rand.Rand) Case {
	base := d.base
	if base == nil {
		base = bare
	}
	tc := base(r)
	h := &hardware{r: r, tc: &tc, traits: d.traits, alike: 35}
	if chance(r, 50) {
		h.fleet()
	}
	h.label()
	h.classes()
	for _, n := range tc.Nodes {
		h.local(n)
	}
	for range r.IntN(d.wide + 1) {
		h.wide()
	}
	if h.has(taints) {
		h.rules()
	}
	for _, p := range tc.Pods {
		switch {
		case isPending(p) && chance(r, 92):
			h.use(p, d.names, d.from)
		case !isPending(p) && chance(r, 40):
			h.hold(p)
		}
	}
	if d.change != nil {
		d.change(h)
	}
	switch {
	case d.base == nil && chance(r, 40):
		tc.Config = configText(deviceProfile(r))
	case d.base == nil && bytes.Equal(tc.Config, EmptyConfig()):
		tc.Config = UntimedConfig()
	}
	return tc
}

// UntimedConfig is the default configuration, without the timeout of the search for
// devices, which is too short on a busy machine.
func UntimedConfig() []byte {
	args := configv1.DynamicResourcesArgs{FilterTimeout: &metav1.Duration{}}
	return configText(configv1.KubeSchedulerProfile{
		SchedulerName: ptr(v1.DefaultSchedulerName), PluginConfig: []configv1.PluginConfig{arguments("DynamicResources", &args, &args.TypeMeta)},
	})
}

// WithoutPreemption is UntimedConfig without DefaultPreemption.
func WithoutPreemption() []byte {
	args := configv1.DynamicResourcesArgs{FilterTimeout: &metav1.Duration{}}
	return configText(configv1.KubeSchedulerProfile{
		SchedulerName: ptr(v1.DefaultSchedulerName), PluginConfig: []configv1.PluginConfig{arguments("DynamicResources", &args, &args.TypeMeta)},
		Plugins: &configv1.Plugins{MultiPoint: configv1.PluginSet{Disabled: []configv1.Plugin{{Name: "DefaultPreemption"}}}},
	})
}

func nominateForDevices(h *hardware) {
	for _, p := range h.tc.Pods {
		if isPending(p) && len(h.tc.Nodes) > 0 && chance(h.r, 40) {
			p.Status.NominatedNodeName = pick(h.r, h.tc.Nodes...).Name
		}
	}
}

// deviceProfile draws the arguments, the weight and the position of DynamicResources. The
// timeouts are far from the ages of allocations.
func deviceProfile(r *rand.Rand) configv1.KubeSchedulerProfile {
	const name = "DynamicResources"
	args := configv1.DynamicResourcesArgs{
		BindingTimeout: &metav1.Duration{Duration: time.Duration(1+r.IntN(5_000)) * time.Second}, FilterTimeout: &metav1.Duration{Duration: time.Duration(r.IntN(2)) * time.Hour},
	}
	p := configv1.KubeSchedulerProfile{SchedulerName: ptr(v1.DefaultSchedulerName), Plugins: &configv1.Plugins{}}
	p.PluginConfig = []configv1.PluginConfig{arguments(name, &args, &args.TypeMeta)}
	switch r.IntN(6) {
	case 0, 1:
		p.Plugins.MultiPoint.Enabled = []configv1.Plugin{{Name: name, Weight: ptr(int32(1 + r.IntN(9)))}}
	case 2:
		p.Plugins.Filter.Enabled = []configv1.Plugin{{Name: name}}
	case 3:
		p.Plugins.PostFilter.Disabled = []configv1.Plugin{{Name: pick(r, name, "DefaultPreemption")}}
	case 4:
		p.Plugins.Score.Disabled = []configv1.Plugin{{Name: name}}
	}
	return p
}
