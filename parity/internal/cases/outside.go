package cases

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
	"github.com/berth-scheduler/berth/parity/internal/outside"
)

// OutsideShapes returns the shapes about user-written plugins and extenders.
func OutsideShapes() []Shape {
	return []Shape{
		{"outside", "out-of-tree plugins: all points up to Permit, before and after built-in ones", withPlugins(topology)},
		{"outside-preempt", "the same on full nodes, with quotas for which pods are evicted", withPlugins(preempt(few, crowdOut, budgets, renominate), quotas)},
		{"extender", "two extenders, of nodes and names, ignorable or not", withExtenders(topology)},
		{"extender-preempt", "the same on full nodes, with a say about victims", withExtenders(preempt(simple, crowdOut, budgets, renominate))},
		{"outside-extender", "both", withExtenders(withPlugins(topology))},
	}
}

// colours are the colors of nodes; some nodes have none.
var colours = []string{"red", "green", "blue", ""}

// coloured adds the annotations that plugins and extenders read to nodes.
func coloured(r *rand.Rand, tc *Case) {
	tc.Outside = true
	for _, n := range tc.Nodes {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[outside.ColourKey], n.Annotations[outside.RateKey] = pick(r, colours...), fmt.Sprint(r.IntN(101))
	}
}

func annotate(p *v1.Pod, key, value string) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[key] = value
}

// withPlugins enables external plugins in drawn configurations.
func withPlugins(base func(r *rand.Rand) Case, more ...func(r *rand.Rand, profiles []configv1.KubeSchedulerProfile)) func(r *rand.Rand) Case {
	return func(r *rand.Rand) Case {
		tc := base(r)
		coloured(r, &tc)
		schedulers := []string{v1.DefaultSchedulerName, "other-scheduler"}[:1+r.IntN(2)]
		var profiles []configv1.KubeSchedulerProfile
		for _, name := range schedulers {
			from := oracle.Profile{}
			p := configv1.KubeSchedulerProfile{SchedulerName: &name, Plugins: &configv1.Plugins{}}
			if chance(r, 50) {
				from = random.TopologyProfile(r)
				p = profileOf(r, name, from)
			}
			enable(r, &p, from)
			profiles = append(profiles, p)
		}
		for _, change := range more {
			change(r, profiles)
		}
		tc.Config = configText(profiles...)
		for _, p := range tc.Pods {
			p.Spec.SchedulerName = pick(r, schedulers...)
			if isPending(p) {
				instruct(r, p, &tc)
			}
		}
		return tc
	}
}

// enable enables most of the external plugins, at all or at single extension points,
// before, between and after built-in ones.
func enable(r *rand.Rand, p *configv1.KubeSchedulerProfile, from oracle.Profile) {
	own := outside.Plugins()
	r.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	for _, name := range own {
		if chance(r, 80) {
			of := configv1.Plugin{Name: name}
			if chance(r, 60) {
				of.Weight = ptr(int32(1 + r.IntN(9)))
			}
			p.Plugins.MultiPoint.Enabled = append(p.Plugins.MultiPoint.Enabled, of)
		}
	}
	for _, point := range []struct {
		set   *configv1.PluginSet
		names []string
	}{
		{&p.Plugins.Filter, append(filters(), outside.Colour, outside.Shade, outside.Names, outside.Quota)},
		{&p.Plugins.PreFilter, []string{outside.Quota, outside.Names, "NodeAffinity", "InterPodAffinity"}},
		{&p.Plugins.Reserve, []string{outside.Second, outside.First}},
		{&p.Plugins.Permit, []string{outside.Second, outside.First}},
	} {
		r.Shuffle(len(point.names), func(i, j int) { point.names[i], point.names[j] = point.names[j], point.names[i] })
		for _, name := range point.names {
			if !from.Disabled[name] && chance(r, 25) {
				point.set.Enabled = append(point.set.Enabled, configv1.Plugin{Name: name})
			}
		}
	}
	quota(p, outside.QuotaArgs{Pods: map[string]int{"default": r.IntN(40), "other": r.IntN(40)}, AtPreFilter: chance(r, 50)})
}

// quota sets Quota's arguments.
func quota(p *configv1.KubeSchedulerProfile, args outside.QuotaArgs) {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(fmt.Sprintf("arguments made of plain values cannot be written: %v", err))
	}
	p.PluginConfig = slices.DeleteFunc(p.PluginConfig, func(c configv1.PluginConfig) bool { return c.Name == outside.Quota })
	p.PluginConfig = append(p.PluginConfig, configv1.PluginConfig{Name: outside.Quota, Args: runtime.RawExtension{Raw: raw}})
}

// quotas sets small quotas.
func quotas(r *rand.Rand, profiles []configv1.KubeSchedulerProfile) {
	for i := range profiles {
		quota(&profiles[i], outside.QuotaArgs{Pods: map[string]int{"default": r.IntN(12), "other": r.IntN(6)}, AtPreFilter: chance(r, 50)})
	}
}

// instruct draws the answers of plugins about a pod.
func instruct(r *rand.Rand, p *v1.Pod, tc *Case) {
	for _, name := range []string{outside.Colour, outside.Shade, outside.Names} {
		for _, colour := range colours {
			if chance(r, 25) {
				annotate(p, name+"/filter."+colour, pick(r, outside.No, outside.No, outside.No, outside.Never, outside.Never, outside.Two, outside.Two, outside.Late))
			} else if chance(r, 1) {
				annotate(p, name+"/filter."+colour, outside.Broke)
			}
		}
	}
	sometimes := func(percent int, key string, values ...string) {
		if chance(r, percent) {
			annotate(p, key, pick(r, values...))
		}
	}
	var some []string
	for _, n := range tc.Nodes {
		if chance(r, 60) {
			some = append(some, n.Name)
		}
	}
	sometimes(25, outside.Names+"/prefilter", strings.Join(append(some, "gone"), ","))
	sometimes(20, outside.Names+"/prefilter", outside.Skip, outside.Skip, outside.No, outside.No, outside.Two, outside.Never, outside.Late, outside.Broke)
	sometimes(15, outside.Quota+"/prefilter", outside.Skip)
	sometimes(20, outside.Rate+"/prescore", outside.Skip, outside.Skip, outside.Skip, outside.No, outside.Broke)
	sometimes(5, outside.Rate+"/score", outside.Broke, outside.No)
	sometimes(5, outside.Flat+"/score", outside.Broke, outside.No, "out", "out")
	sometimes(40, outside.Rate+"/normalize", "reverse", "reverse", "reverse", "reverse", "reverse", outside.Broke)
	for _, name := range []string{outside.First, outside.Second} {
		sometimes(15, name+"/reserve", outside.No, outside.Never, outside.Two, outside.Late, outside.Broke)
		sometimes(25, name+"/permit", outside.Wait, outside.Wait, outside.Wait, outside.No, outside.Never, outside.Two, outside.Late, outside.Broke)
	}
}

// withExtenders adds two extenders to a case.
func withExtenders(base func(r *rand.Rand) Case) func(r *rand.Rand) Case {
	return func(r *rand.Rand) Case {
		tc := base(r)
		coloured(r, &tc)
		bare := false
		var list []configv1.Extender
		for at := range 2 {
			e := configv1.Extender{
				URLPrefix: outside.Address + "/" + outside.Extender(at), Weight: int64(1 + r.IntN(3)), NodeCacheCapable: chance(r, 60), Ignorable: chance(r, 30),
			}
			if chance(r, 90) {
				e.FilterVerb = "filter"
			}
			if chance(r, 70) {
				e.PrioritizeVerb = "prioritize"
			}
			if chance(r, 70) {
				e.PreemptVerb = "preempt"
			}
			if chance(r, 20) {
				e.ManagedResources = []configv1.ExtenderManagedResource{{Name: []string{"example.com/gpu", "example.com/fpga"}[at], IgnoredByScheduler: chance(r, 50)}}
			}
			bare = bare || e.FilterVerb != "" && !e.NodeCacheCapable
			list = append(list, e)
		}
		if bare {
			withoutSoftConstraints(&tc)
		}
		tc.Config = withField(tc.Config, "extenders", list)
		for _, p := range tc.Pods {
			if isPending(p) {
				instructExtenders(r, p)
			}
		}
		return tc
	}
}

// withField sets a field of a configuration.
func withField(text []byte, field string, value any) []byte {
	config := map[string]any{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		panic(fmt.Sprintf("a configuration that was written cannot be read: %v", err))
	}
	config[field] = value
	text, err := yaml.Marshal(config)
	if err != nil {
		panic(fmt.Sprintf("a configuration made of plain values cannot be written: %v", err))
	}
	return text
}

// withoutSoftConstraints removes soft constraints and the basis of default ones. If an
// extender returns whole nodes, kube-scheduler counts no pods on them; Berth does.
func withoutSoftConstraints(tc *Case) {
	tc.Services, tc.ReplicationControllers, tc.ReplicaSets, tc.StatefulSets = nil, nil, nil, nil
	for _, p := range tc.Pods {
		keepConstraints(p, v1.DoNotSchedule)
	}
}

// instructExtenders draws the answers of extenders about a pod.
func instructExtenders(r *rand.Rand, p *v1.Pod) {
	for at := range 2 {
		name := outside.Extender(at)
		for _, colour := range colours {
			if chance(r, 30) {
				annotate(p, name+"/filter."+colour, pick(r, outside.No, outside.No, outside.Never, outside.Never, outside.Both, outside.Silent))
			}
			if chance(r, 30) {
				annotate(p, name+"/preempt."+colour, pick(r, outside.No, outside.No, outside.Fewer, outside.More, outside.Empty))
			}
			if chance(r, 10) {
				annotate(p, name+"/prioritize."+colour, outside.Silent)
			}
		}
		for _, verb := range []string{"filter", "prioritize", "preempt"} {
			if chance(r, 6) {
				annotate(p, name+"/"+verb, outside.Status)
			}
		}
		if chance(r, 3) {
			annotate(p, name+"/filter", outside.Broke)
		}
	}
}
