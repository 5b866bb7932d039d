package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// withPlugins is a small cluster whose profile has additional plugins.
func withPlugins(t *testing.T, nodes int, add func(*plugin.Profile)) *bench {
	t.Helper()
	p := enginetest.Profile(t, oracle.NodeLocalProfile())
	add(p)
	e, err := engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return &bench{state: newBench(t, nodes).state, engine: e, profile: p}
}

// claims is a state filter. The namespace's label "node" names the only node that its
// pods may run on, which is found in the pod's turn. A namespace without the label
// rejects its pods, and the value "broken" is an error.
type claims struct{ asked int }

func (*claims) Name() string              { return "Claims" }
func (*claims) FilterReads() model.Aspect { return 0 }

func (c *claims) FilterNeedIn(v state.View, pod *model.Pod) (plugin.StateNeed, error) {
	switch name := v.State().Namespace(pod.Namespace)["node"]; name {
	case "":
		return plugin.StateNeed{Rejection: "no claim"}, nil
	case "broken":
		return plugin.StateNeed{}, errors.New("the claim is broken")
	default:
		return plugin.StateNeed{Need: &onlyNode{name, c}}, nil
	}
}

type onlyNode struct {
	name   string
	claims *claims
}

func (n *onlyNode) AppendText(text []byte) []byte { return append(text, n.name...) }
func (n *onlyNode) Compile() *plugin.Verdicts     { return &plugin.Verdicts{NodeVerdicts: n, Failures: n} }

func (n *onlyNode) Filter(node state.Node) reason.Code {
	n.claims.asked++
	switch {
	case strings.HasPrefix(n.name, "fails") && node.Name() == "node-00003":
		return reason.Failed | 7
	case node.Name() != n.name:
		return 1
	}
	return reason.None
}

func (*onlyNode) Reasons(reason.Code) []string { return []string{"node(s) without the claim"} }
func (*onlyNode) Err(_ state.View, _ *model.Pod, code reason.Code) error {
	if code == reason.Failed|7 {
		return errors.New("no answer")
	}
	return nil
}

// claimOf returns a change that labels a namespace with the only node of its pods.
func claimOf(namespace, node string) model.Change {
	object := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{"node": node}}}
	return model.Change{Kind: model.ObjectSet, Object: object, Ref: model.Ref{Kind: model.NamespaceKind, Name: namespace}}
}

// TestStateFilter changes the input of a filter after the pod was compiled. Pods that
// have the same need at the time share its columns, and the turn fails if the filter
// fails.
func TestStateFilter(t *testing.T) {
	filter := &claims{}
	b := withPlugins(t, 20, func(p *plugin.Profile) { p.Filters = append(p.Filters, plugintest.Filters(filter)...) })
	label := func(node string) {
		b.state.Apply([]model.Change{claimOf("bench", node)})
	}
	decide := func(i int) plan.Decision {
		return b.engine.Decide(b.state.View(), plan.Alone(b.pod(i, shapes["plain"])))
	}

	if d := decide(0); d.Outcome != plan.Unschedulable || d.Rejection.PreFilter != "no claim" || !slices.Equal(d.Rejection.Plugins, []string{"Claims"}) {
		t.Errorf("without a claim: %+v", d)
	}
	for _, name := range []string{"node-00002", "node-00004", "node-00002"} {
		label(name)
		if d := decide(1); d.Outcome != plan.Placed || d.Placement.NodeName != name {
			t.Errorf("with a claim on %s: %+v", name, d)
		}
	}
	asked := filter.asked
	if decide(2); filter.asked != asked {
		t.Error("the filter was called again for a need that has a column")
	}
	label("broken")
	if d := decide(3); d.Outcome != plan.Failed || d.Err.Error() != `running PreFilter plugin "Claims": the claim is broken` {
		t.Errorf("with a broken claim: %+v", d)
	}
	label("fails")
	if d := decide(4); d.Outcome != plan.Failed || d.Err.Error() != `running "Claims" filter plugin: no answer` {
		t.Errorf("with a filter that fails: %+v", d)
	}
	pinned := b.pod(5, pinnedTo("node-00003"))
	if d := b.engine.Decide(b.state.View(), plan.Alone(pinned)); d.Outcome != plan.Failed || d.Err.Error() != `running "Claims" filter plugin: no answer` {
		t.Errorf("with a filter that fails on the only node: %+v", d)
	}
	// A filter before it rejects the node that it fails on, so its failure does not
	// matter.
	label("fails elsewhere")
	b.state.Apply([]model.Change{{Kind: model.NodeGone, Name: "node-00003"}})
	if d := decide(6); d.Outcome != plan.Unschedulable {
		t.Errorf("without the failing node: %+v", d)
	}
}

// evict is a PostFilter plugin that evicts one pod from one node.
type evict struct {
	victim *model.Pod
	slot   int32
	t      *testing.T
}

func (*evict) Name() string { return "Evict" }

func (e *evict) PostFilter(cycle plugin.Cycle, _ *model.Pod) (plugin.PostFilterResult, error) {
	c := cycle.(*engine.Shown)
	if e.victim == nil {
		return plugin.PostFilterResult{}, errors.New("no victim")
	}
	dryRun := c.View().DryRun(new(state.Draft))
	if texts, err := c.Reasons(c.Objection(dryRun, e.slot)); !slices.Equal(texts, []string{"Insufficient cpu"}) || err != nil {
		e.t.Errorf("before the eviction: %q, %v", texts, err)
	}
	dryRun.Remove(e.victim.Key())
	if o := c.Objection(dryRun, e.slot); !o.IsNone() || !c.Resolvable(e.slot) || !slices.Equal(c.Potential(), []int32{e.slot}) {
		e.t.Errorf("after the eviction: %+v; resolvable: %t, potential %d", o, c.Resolvable(e.slot), c.Potential())
	}
	var use state.Use
	use.Reset(c.View().Node(e.slot))
	if o := c.ObjectionWith(e.slot, &use); !c.Facts().OnlyUsage || o.IsNone() || c.FitsWith(e.slot, &use) {
		e.t.Errorf("with the use as it is: %+v", o)
	}
	use.Add(e.victim, -1)
	if o := c.ObjectionWith(e.slot, &use); !o.IsNone() || !c.FitsWith(e.slot, &use) {
		e.t.Errorf("with less use: %+v", o)
	}
	nodeName := c.View().Node(e.slot).Name()
	return plugin.PostFilterResult{
		Done: true, Message: "found a place", Nomination: plan.Set, NodeName: nodeName, Evictions: []plan.Eviction{{Pod: e.victim, NodeName: nodeName}},
	}, nil
}

// TestPostFilter runs a PostFilter plugin that finds, in a dry run, that a pod fits when
// another is evicted.
func TestPostFilter(t *testing.T) {
	plugins := &evict{t: t}
	b := withPlugins(t, 1, func(p *plugin.Profile) { p.PostFilters = append(p.PostFilters, plugintest.PartsOf(plugins).PostFilter) })
	large := func(p *v1.Pod) {
		p.UID = types.UID(p.Name)
		p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("30")
	}
	first := b.pod(0, large)
	b.place(t, first)
	second := b.pod(1, large)
	if d := b.engine.Decide(b.state.View(), plan.Alone(second)); d.Outcome != plan.Unschedulable || d.PostFilter != "no victim" || d.PostFilterErr == nil || len(d.Nominations) > 0 {
		t.Errorf("a plugin that fails: %+v", d)
	}
	plugins.victim = first
	d := b.engine.Decide(b.state.View(), plan.Alone(second))
	if d.Outcome != plan.Unschedulable || d.PostFilter != "found a place" || d.PostFilterErr != nil || len(d.Evictions) != 1 || d.Evictions[0].Pod != first ||
		d.NominationOf(second) != (plan.Nomination{Pod: second, Mode: plan.Set, NodeName: "node-00000"}) {
		t.Errorf("%+v", d)
	}
}

// useless is a PostFilter plugin that finds nothing to do, or fails.
type useless struct {
	asked int
	err   error
}

func (*useless) Name() string { return "Useless" }

func (u *useless) PostFilter(_ plugin.Cycle, pod *model.Pod) (plugin.PostFilterResult, error) {
	u.asked++
	if u.err != nil {
		return plugin.PostFilterResult{}, u.err
	}
	return plugin.PostFilterResult{Message: fmt.Sprintf("no use for priority %d", pod.Priority), Nomination: plan.Clear}, nil
}

// TestOfAWaveOneIsSearchedFor rejects equal pods one after the other. PostFilter plugins
// run again only after a change, for another priority, or after a failure.
func TestOfAWaveOneIsSearchedFor(t *testing.T) {
	u := &useless{}
	b := withPlugins(t, 3, func(p *plugin.Profile) { p.PostFilters = []*plugin.PostFilter{plugintest.PartsOf(u).PostFilter} })
	i := 0
	reject := func(priority int32, asked int) {
		t.Helper()
		before := u.asked
		pod := b.pod(i, func(p *v1.Pod) {
			p.Spec.Priority = &priority
			p.Spec.Containers[0].Resources.Requests[v1.ResourceCPU] = resource.MustParse("1000")
		})
		i++
		d := b.engine.Decide(b.state.View(), plan.Alone(pod))
		want := fmt.Sprintf("no use for priority %d", priority)
		if u.err != nil {
			want = u.err.Error()
		}
		if d.Outcome != plan.Unschedulable || d.PostFilter != want || !errors.Is(d.PostFilterErr, u.err) || u.asked-before != asked {
			t.Errorf("pod %d is %s: %q, want %q; plugins were run %d times, want %d", i, d.Outcome, d.PostFilter, want, u.asked-before, asked)
		}
	}
	reject(5, 1) // decided
	reject(5, 1) // the rejection is remembered from here on
	reject(5, 0)
	reject(5, 0)
	reject(7, 1)
	reject(7, 0)
	b.place(t, b.pod(1000, shapes["plain"]))
	reject(7, 1) // decided anew, without a column to follow the change
	reject(7, 1)
	reject(7, 0)
	b.place(t, b.pod(1001, shapes["plain"]))
	reject(7, 1)
	reject(7, 0)
	u.err = errors.New("no answer")
	reject(5, 1)
	reject(5, 1)
	u.err = nil
	reject(5, 1)
	reject(5, 0)
}

// volumes is a Reserve, Permit, PreBind and PostBind plugin, and binds pods by a step.
type volumes struct{ fails string }

func (*volumes) Name() string { return "Volumes" }

func (v *volumes) failing(point string) error {
	if v.fails == point {
		return errors.New("no")
	}
	return nil
}

func (v *volumes) Reserve(_ state.View, pod *model.Pod, _ int32) ([]plan.Hold, error) {
	return []plan.Hold{{Plugin: "Volumes", Object: model.Ref{Name: "volume-of-" + pod.Name}}}, v.failing("Reserve")
}

func (v *volumes) Permit(state.View, *plan.Placement) ([]plan.Step, error) {
	return []plan.Step{{}}, v.failing("Permit")
}

func (v *volumes) PreBind(_ state.View, p *plan.Placement) ([]plan.Step, error) {
	return []plan.Step{{Write: &plan.Write{Name: p.Holds[0].Object.Name}}}, v.failing("PreBind")
}

func (v *volumes) BindSteps(state.View, *plan.Placement) ([]plan.Step, error) {
	return []plan.Step{{}}, v.failing("Bind")
}

func (v *volumes) PostBind(state.View, *plan.Placement) ([]plan.Step, error) {
	return []plan.Step{{}}, v.failing("PostBind")
}

// TestPlacementHoldsAndSteps runs a plugin that reserves something and returns steps. If
// it fails, the pod's turn fails with kube-scheduler's text.
func TestPlacementHoldsAndSteps(t *testing.T) {
	v := &volumes{}
	b := withPlugins(t, 3, func(p *plugin.Profile) {
		p.Reserve, p.Permit = append(p.Reserve, plugintest.PartsOf(v).Reserve), append(p.Permit, plugintest.PartsOf(v).Permit)
		p.PreBind, p.BindSteps, p.PostBind = append(p.PreBind, plugintest.PartsOf(v).PreBind), append(p.BindSteps, &plugin.BindSteps{Name: v.Name(), Steps: v.BindSteps}), append(p.PostBind, plugintest.PartsOf(v).PostBind)
	})
	pod := b.pod(0, shapes["plain"])
	d := b.engine.Decide(b.state.View(), plan.Alone(pod))
	var steps []string
	for _, s := range d.Placement.Steps {
		steps = append(steps, s.Stage.String()+" "+s.Plugin)
	}
	if got := strings.Join(steps, ", "); got != "Permit Volumes, PreBind Volumes, Bind Volumes, PostBind Volumes" || d.Placement.Steps[1].Write.Name != "volume-of-pod-0" {
		t.Errorf("steps: %s", got)
	}
	assume(b.state, d)
	if holders := b.state.View().Holders(model.Ref{Name: "volume-of-pod-0"}); len(holders) != 1 || holders[0].Pod != pod.Key() {
		t.Errorf("the volume is held by %v", holders)
	}
	for _, point := range []string{"Reserve", "Permit", "PreBind", "Bind", "PostBind"} {
		v.fails = point
		d := b.engine.Decide(b.state.View(), plan.Alone(b.pod(1, shapes["plain"])))
		if want := "running " + point + ` plugin "Volumes": no`; d.Outcome != plan.Failed || d.Err.Error() != want || d.Placement.Pod != nil {
			t.Errorf("%+v, want %s", d, want)
		}
	}
}

// TestNominatedPodsChangeNoVersion has nominated pods with terms that no pod on a node
// has. The state's versions stay the same, so no value cached by version is computed
// again.
func TestNominatedPodsChangeNoVersion(t *testing.T) {
	b := newBench(t, 20)
	repelling := func(p *v1.Pod) {
		p.UID, p.Labels = types.UID(p.Name), map[string]string{"app": "web"}
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, TopologyKey: "pool"},
		}}}
	}
	for i := range 5 {
		nominated := b.pod(i, repelling)
		nominated.NominatedNode = []string{"node-00000", "node-00001"}[i%2]
		b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: nominated}})
	}
	pod := b.pod(9, repelling)
	b.engine.Decide(b.state.View(), plan.Alone(pod))
	version, terms := b.state.Version(), b.state.View().TermsVersion()
	d := b.engine.Decide(b.state.View(), plan.Alone(pod))
	if b.state.Version() != version || b.state.View().TermsVersion() != terms {
		t.Errorf("the journal went from %d to %d, the terms from %d to %d", version, b.state.Version(), terms, b.state.View().TermsVersion())
	}
	// One node is tainted, and two leave space to the nominated pods. These repel the pod
	// from their own nodes alone, although the other nodes of the pools are in the same
	// domains: only a node's own nominated pods count.
	if d.Outcome != plan.Placed || d.Feasible != 17 {
		t.Errorf("%s: %d nodes are feasible, want 17", d.Outcome, d.Feasible)
	}
}

// failing is a node filter that fails for one node and passes all others.
type failing string

func (failing) Name() string                              { return "Failing" }
func (failing) FilterReads() model.Aspect                 { return 0 }
func (f failing) FilterNeed(*model.Pod) plugin.FilterNeed { return f }
func (f failing) AppendText(text []byte) []byte           { return append(text, f...) }
func (f failing) Compile() *plugin.Verdicts               { return &plugin.Verdicts{NodeVerdicts: f, Failures: f} }
func (failing) Reasons(reason.Code) []string              { panic("asked for the reasons of a failure") }
func (failing) Err(state.View, *model.Pod, reason.Code) error {
	return errors.New("no answer")
}
func (f failing) Filter(node state.Node) (code reason.Code) {
	if node.Name() == string(f) {
		code = reason.Failed | 1
	}
	return code
}

// away is a count filter that rejects one node.
type away string

func (away) Name() string                               { return "Away" }
func (a away) CountNeed(*model.Pod) plugin.CountNeed    { return a }
func (a away) AppendText(text []byte) []byte            { return append(text, a...) }
func (a away) Compile() plugin.Counting                 { return a }
func (away) PreFilter(state.View) (bool, string, error) { return true, "", nil }
func (away) Reasons(reason.Code) []string               { return []string{"node(s) too near"} }
func (away) AppendVersions(to []uint64) []uint64        { return to }
func (a away) Rules(v state.View, to []plugin.CountRule) []plugin.CountRule {
	domains := v.Domains(state.TopologyKey{})
	slot, _ := v.Slot(string(a))
	counts := make([]int32, domains[slot]+1)
	counts[domains[slot]] = 1
	return append(to, plugin.CountRule{Domains: domains, Counts: counts, Code: 1})
}

// TestFailureOfRejectedNode has a filter fail for a node that an earlier filter without a
// column rejects. The failure does not count. Nor does a failure for a node outside those
// that a PreFilter names.
func TestFailureOfRejectedNode(t *testing.T) {
	b := withPlugins(t, 100, func(p *plugin.Profile) {
		p.Filters = append(p.Filters, plugintest.Filters(away("node-00003"), failing("node-00003"))...)
	})
	d := b.engine.Decide(b.state.View(), plan.Alone(b.pod(0, shapes["plain"])))
	if d.Outcome != plan.Placed || d.Feasible != 94 { // five are tainted
		t.Errorf("rejected before: %+v", d)
	}
	b = withPlugins(t, 100, func(p *plugin.Profile) { p.Filters = append(p.Filters, plugintest.Filters(failing("node-00003"))...) })
	var names []string
	for i := 10; i < 90; i++ {
		names = append(names, benchNode(i).Name)
	}
	d = b.engine.Decide(b.state.View(), plan.Alone(b.pod(0, pinnedTo(names...))))
	if d.Outcome != plan.Placed || d.Feasible != 76 { // four are tainted
		t.Errorf("outside of the nodes to check: %+v", d)
	}
	if _, err := b.engine.Answer(b.state.View(), b.pod(0, shapes["plain"])); err != nil {
		t.Error(err)
	}
}

// TestNoFilters disables all filters of a profile. It decides about pods that name their
// node, are nominated, or meet nominated pods.
func TestNoFilters(t *testing.T) {
	b := withPlugins(t, 5, func(p *plugin.Profile) { p.Filters = nil })
	nominated := b.pod(0, func(p *v1.Pod) { p.UID = "nominated" })
	nominated.NominatedNode = "node-00001"
	b.state.Apply([]model.Change{{Kind: model.PodSet, Pod: nominated}})
	for i, pod := range []*model.Pod{b.pod(1, pinnedTo("node-00002")), nominated, b.pod(2, shapes["plain"])} {
		if d := b.engine.Decide(b.state.View(), plan.Alone(pod)); d.Outcome != plan.Placed {
			t.Errorf("pod %d: %+v", i, d)
		}
		if _, err := b.engine.Answer(b.state.View(), pod); err != nil {
			t.Errorf("pod %d: %v", i, err)
		}
	}
}

// asked is a PreFilter plugin that counts its calls, and rejects pods with its label. A
// byPod skips other pods.
type asked struct {
	label string
	times int
}

func (a *asked) Name() string { return a.label }
func (a *asked) PreFilter(_ state.View, pod *model.Pod) plugin.PreFilterResult {
	a.times++
	return plugin.PreFilterResult{Rejection: pod.Labels[a.label]}
}

type byPod struct{ asked }

func (b *byPod) Skips(pod *model.Pod) bool { return pod.Labels[b.label] == "" }

// TestSkippedPreFilters has more PreFilter plugins than a pod can skip. Each is called
// for its own pods, and not for pods that skip it.
func TestSkippedPreFilters(t *testing.T) {
	var all []*asked
	b := withPlugins(t, 5, func(p *plugin.Profile) {
		for i := range 70 {
			if a := (asked{label: fmt.Sprint("plugin-", i)}); i%2 == 0 {
				plugin := &byPod{a}
				p.PreFilters, all = append(p.PreFilters, plugintest.PartsOf(plugin).PreFilter), append(all, &plugin.asked)
			} else {
				p.PreFilters, all = append(p.PreFilters, plugintest.PartsOf(&a).PreFilter), append(all, &a)
			}
		}
	})
	first := len(b.profile.PreFilters) - len(all)
	decide := func(labels map[string]string) plan.Decision {
		pod := b.pod(0, func(p *v1.Pod) { p.Labels = labels })
		for _, a := range all {
			a.times = 0
		}
		return b.engine.Decide(b.state.View(), plan.Alone(pod))
	}
	if d := decide(nil); d.Outcome != plan.Placed {
		t.Errorf("%+v", d)
	}
	for i, a := range all {
		if skips := i%2 == 0 && first+i < 64; a.times != 1 && !skips || a.times != 0 && skips {
			t.Errorf("plugin %d is asked %d times", first+i, a.times)
		}
	}
	for i, a := range all {
		d := decide(map[string]string{a.label: "no"})
		if d.Outcome != plan.Unschedulable || !slices.Equal(d.Rejection.Plugins, []string{a.label}) {
			t.Errorf("plugin %d rejects: %+v", first+i, d.Rejection)
		}
	}
}
