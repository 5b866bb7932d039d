package framework_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model/plan"
)

type preFilters struct {
	named
	f func(state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status)
	x fwk.PreFilterExtensions
}

func (p *preFilters) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	return p.f(state, pod, nodes)
}
func (p *preFilters) PreFilterExtensions() fwk.PreFilterExtensions { return p.x }

type filters struct {
	named
	f func(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status
}

func (p *filters) Filter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	return p.f(ctx, state, pod, node)
}

// TestPreFilter makes a plugin return every status.
func TestPreFilter(t *testing.T) {
	names := func(names ...string) *fwk.PreFilterResult {
		return &fwk.PreFilterResult{NodeNames: sets.New(names...)}
	}
	for _, test := range []struct {
		name   string
		result *fwk.PreFilterResult
		status *fwk.Status
		panics any
		want   string
	}{
		{"nil", nil, nil, nil, "on "},
		{"Success", nil, status(fwk.Success), nil, "on "},
		{"one node", names("n1"), nil, nil, "on n1"},
		{"no node", names(), nil, nil, "0/3 nodes are available: node(s) didn't satisfy plugin P. P"},
		{"Skip", names("n1"), status(fwk.Skip), nil, "on "},
		{"unresolvable", nil, status(fwk.UnschedulableAndUnresolvable, "a", "b"), nil, "0/3 nodes are available: a, b. P"},
		{"Unschedulable", nil, status(fwk.Unschedulable, "no"), nil, "0/3 nodes are available: no. P"},
		{"without a reason", nil, status(fwk.Unschedulable), nil, "0/3 nodes are available: plugin P gave no reason. P"},
		{"Pending", nil, status(fwk.Pending, "later"), nil, `failed: running PreFilter plugin "P": later`},
		{"Error", nil, fwk.AsStatus(errors.New("broken")), nil, `failed: running PreFilter plugin "P": broken`},
		{"Wait", nil, status(fwk.Wait), nil, `failed: running PreFilter plugin "P": returned Wait at PreFilter, which is unsupported`},
		{"a code out of range", nil, status(99), nil, `failed: running PreFilter plugin "P": returned the status code 99 at PreFilter`},
		{"a negative code", nil, status(-1), nil, `failed: running PreFilter plugin "P": returned the status code -1 at PreFilter`},
		{"a panic", nil, nil, "boom", `failed: running PreFilter plugin "P": plugin "P" at PreFilter: panicked: boom`},
	} {
		w := newWorld(t, 3, &preFilters{named: "P", f: func(_ fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
			if len(nodes) != 3 || pod.Name != "p" {
				t.Errorf("%s: called with pod %s and %d nodes", test.name, pod.Name, len(nodes))
			}
			if test.panics != nil {
				panic(test.panics)
			}
			return test.result, test.status
		}})
		d := w.decide(w.pod("p", "1"))
		if got := describe(&d); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %s; want %s", test.name, got, test.want)
		}
	}
}

// TestNarrowedTwice has an out-of-tree and a built-in plugin that both name nodes. The
// intersection remains, and Filter runs only for it.
func TestNarrowedTwice(t *testing.T) {
	byAffinity := func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"n1"}}},
		}}}}}
	}
	for _, test := range []struct {
		names []string
		want  string
		asked []string
	}{
		{[]string{"n0", "n1"}, "on n1", []string{"n1"}},
		{[]string{"n1", "unheard-of"}, "on n1", []string{"n1"}},
		{[]string{"n0", "n2"}, "0/3 nodes are available: node(s) didn't satisfy plugin(s) [NodeAffinity P] simultaneously. NodeAffinity,P", nil},
	} {
		var asked []string
		w := newWorld(t, 3, &preFilters{named: "P", f: func(fwk.CycleState, *v1.Pod, []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
			return &fwk.PreFilterResult{NodeNames: sets.New(test.names...)}, nil
		}}, &filters{"F", func(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
			asked = append(asked, node.Node().Name)
			return nil
		}})
		d := w.decide(w.pod("p", "1", byAffinity))
		if got := describe(&d); got != test.want || !slices.Equal(asked, test.asked) {
			t.Errorf("%v: %s, asked about %v; want %s, %v", test.names, got, asked, test.want, test.asked)
		}
	}
}

// TestFilter makes a plugin return every status on n1, and reject n0.
func TestFilter(t *testing.T) {
	for _, test := range []struct {
		status *fwk.Status
		want   string
	}{
		{nil, "on n1"},
		{status(fwk.Success), "on n1"},
		{status(fwk.Unschedulable, "no"), "0/2 nodes are available: 2 no. P"},
		{status(fwk.UnschedulableAndUnresolvable, "never"), "0/2 nodes are available: 1 never, 1 no. P"},
		{status(fwk.Pending, "later"), "0/2 nodes are available: 1 later, 1 no. P"},
		{fwk.AsStatus(errors.New("broken")), `failed: running "P" filter plugin: broken`},
		{status(fwk.Wait, "x"), `failed: running "P" filter plugin: returned Wait at Filter, which is unsupported: it is supposed to return Success, Error, Unschedulable, UnschedulableAndUnresolvable or Pending: x`},
		{status(fwk.Skip), `failed: running "P" filter plugin: returned Skip at Filter`},
		{status(7), `failed: running "P" filter plugin: returned the status code 7 at Filter`},
	} {
		w := newWorld(t, 2, &filters{"P", func(_ context.Context, _ fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) *fwk.Status {
			if node.Node().Name == "n0" {
				return status(fwk.Unschedulable, "no")
			}
			return test.status
		}})
		d := w.decide(w.pod("p", "1"))
		if got := describe(&d); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s; want %s", got, test.want)
		}
	}
}

// TestHang makes a Filter plugin hang on a node. The turn fails in time, with the
// plugin's name. The next turn succeeds, whatever the late call does with its arguments.
func TestHang(t *testing.T) {
	// In virtual time a call is late only if it hangs, however busy the machine is.
	synctest.Test(t, func(t *testing.T) {
		release, done := make(chan struct{}), make(chan struct{})
		var once sync.Once
		w := newWorldWithin(t, time.Second, 2, &filters{"P", func(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
			once.Do(func() {
				<-release
				pod.Labels = map[string]string{"late": "write"}
				state.Write("late", nil)
				_ = state.GetSkipFilterPlugins()
				if ctx.Err() == nil {
					t.Error("the context has not ended")
				}
				close(done)
			})
			return nil
		}})
		pod := w.pod("p", "1")
		d := w.decide(pod)
		if got, want := describe(&d), `failed: running "P" filter plugin: plugin "P" at Filter: has not returned within 1s`; got != want {
			t.Errorf("%s; want %s", got, want)
		}
		close(release)
		other := w.pod("other", "1")
		for range 20 {
			d = w.decide(other)
			if d.Outcome != plan.Placed {
				t.Error(describe(&d))
			}
		}
		<-done
		if d = w.decide(pod); !strings.Contains(describe(&d), "not called for this pod for 1m0s") {
			t.Errorf("the pod that made the plugin hang: %s", describe(&d))
		}
		time.Sleep(time.Minute)
		if d = w.decide(pod); d.Outcome != plan.Placed {
			t.Errorf("the same pod a minute later: %s", describe(&d))
		}
		if pod.Object.Labels["late"] != "" {
			t.Error("a plugin has written to the state's pod")
		}
	})
}
