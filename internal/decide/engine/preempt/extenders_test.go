package preempt_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// adviser is an extender that chooses victims.
type adviser struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string // the candidates of each request
	// answers are candidates: "same", "500", or "n1: a b; n2: c !2" with victims, and the
	// number of them that violate budgets.
	answers string
}

func advise(t *testing.T, answers string) *adviser {
	a := &adviser{answers: answers}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if r.URL.Path == "/nowhere" { // a filter that rejects all nodes
			if err := json.NewEncoder(w).Encode(extenderv1.ExtenderFilterResult{NodeNames: &[]string{}, FailedNodes: extenderv1.FailedNodesMap{"n1": "full", "n2": "full"}}); err != nil {
				t.Error(err)
			}
			return
		}
		var args extenderv1.ExtenderPreemptionArgs
		if err := json.NewDecoder(r.Body).Decode(&args); err != nil {
			t.Error(err)
		}
		meta := args.NodeNameToMetaVictims
		for name, victims := range args.NodeNameToVictims {
			if meta == nil {
				meta = map[string]*extenderv1.MetaVictims{}
			}
			meta[name] = &extenderv1.MetaVictims{NumPDBViolations: victims.NumPDBViolations}
			for _, pod := range victims.Pods {
				meta[name].Pods = append(meta[name].Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
			}
		}
		a.asked = append(a.asked, candidates(meta))
		switch a.answers {
		case "500":
			w.WriteHeader(http.StatusInternalServerError)
			return
		case "same":
		default:
			meta = parsed(a.answers)
		}
		if err := json.NewEncoder(w).Encode(extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: meta}); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

func candidates(meta map[string]*extenderv1.MetaVictims) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		text := name + ":"
		for _, pod := range meta[name].Pods {
			text += " " + pod.UID
		}
		if n := meta[name].NumPDBViolations; n != 0 {
			text += fmt.Sprintf(" !%d", n)
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func parsed(text string) map[string]*extenderv1.MetaVictims {
	meta := map[string]*extenderv1.MetaVictims{}
	for part := range strings.SplitSeq(text, ";") {
		name, rest, ok := strings.Cut(part, ":")
		if !ok {
			continue
		}
		victims := &extenderv1.MetaVictims{}
		for _, word := range strings.Fields(rest) {
			switch {
			case word == "null":
				victims.Pods = append(victims.Pods, nil)
			case word == "none":
				victims = nil
			case word[0] == '!':
				if _, err := fmt.Sscanf(word, "!%d", &victims.NumPDBViolations); err != nil {
					panic(err)
				}
			default:
				victims.Pods = append(victims.Pods, &extenderv1.MetaPod{UID: word})
			}
		}
		meta[strings.TrimSpace(name)] = victims
	}
	return meta
}

// newAdvised is newCluster with extenders. The UIDs of its pods are their names.
func newAdvised(t *testing.T, extenders []string, objects ...[]runtime.Object) *cluster {
	t.Helper()
	return newAdvisedFor(t, config.Release37, extenders, objects...)
}

func newAdvisedFor(t *testing.T, release config.Release, extenders []string, objects ...[]runtime.Object) *cluster {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders: [" + strings.Join(extenders, ", ") + "]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(config.Request{File: file, AskExtenders: true, Release: release})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Extenders.Close)
	e, err := engine.New(engine.Config{Profiles: c.Profiles})
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	plugintest.Set(s, slices.Concat(objects...)...)
	return &cluster{s, e, c}
}

// TestExtenders lets extenders choose among candidates, one after the other.
func TestExtenders(t *testing.T) {
	// Without extenders the victims are c on n2. n3 has d, which is more important; on n4
	// preemption does not help.
	world := func() [][]runtime.Object {
		return [][]runtime.Object{
			nodes("n1= n2= n3= n4="), on("n1", "a(10,2) b(20,2)"), on("n2", "c(10)"), on("n3", "d(50)"), on("n4", "e(200)"), budget("x", "app=a", 0),
		}
	}
	const all = "n1: b a !1; n2: c; n3: d"
	for _, row := range []struct {
		name string
		// by extender: i for an ignorable one, c with a node cache, - otherwise
		ignorable string
		answers   []string
		want      string
		// the candidates in each extender's request; empty without a request
		asked []string
	}{
		{"same", "-", []string{"same"}, "n2: c", []string{all}},
		{"same, cached", "c", []string{"same"}, "n2: c", []string{all}},
		{"one left", "-", []string{"n3: d"}, "n3: d", []string{all}},
		{"other victims", "c", []string{"n1: a"}, "n1: a", []string{all}},
		{"victims in the order given", "-", []string{"n1: a b"}, "n1: a b", []string{all}},
		{"a victim twice", "-", []string{"n1: a a b a"}, "n1: a b", []string{all}},
		{"fewest violations", "-", []string{"n1: a b; n2: c !2; n3: d !1"}, "n1: a b", []string{all}},
		{"negative violations", "-", []string{"n2: c; n3: d !-1"}, "n3: d", []string{all}},
		{"very many violations", "-", []string{"n2: c !9000000000000000000; n3: d"}, "n3: d", []string{all}},
		{"the first victim counts as the highest", "-", []string{"n1: a b; n3: d"}, "n1: a b", []string{all}},
		{"a node that was no candidate", "-", []string{"n4: e"}, "n4: e", []string{all}},
		{"nothing left", "-", []string{" "}, "keep preemption: no candidate node for preemption", []string{all}},
		{"one after the other", "-c", []string{"n2: c; n3: d", "n3: d"}, "n3: d", []string{all, "n2: c; n3: d"}},
		{"nothing left for the second", "--", []string{" ", "same"}, "keep preemption: no candidate node for preemption", []string{all, ""}},
		{"cannot be asked", "--", []string{"500", "same"}, "keep preemption: failed p with extender at URL %0/p, code 500", []string{all, ""}},
		{"ignored", "-i", []string{"n1: b a; n3: d", "500"}, "n1: b a", []string{all, "n1: b a; n3: d"}},
		{"all ignored", "ii", []string{"500", "500"}, "n2: c", []string{all, all}},
		{"no such node", "-", []string{"n9: c"}, `keep preemption: nodeinfo not found for node name "n9"`, []string{all}},
		{"no such node, ignored", "i", []string{"n9: c"}, "n2: c", []string{all}},
		{
			"no such victim", "-", []string{"n2: zz"},
			"keep preemption: extender: %0 claims to preempt pod (UID: &{zz}) on node: n2, but the pod is not found on that node", []string{all},
		},
		{
			"a victim of another node", "c", []string{"n2: d"},
			"keep preemption: extender: %0 claims to preempt pod (UID: &{d}) on node: n2, but the pod is not found on that node", []string{all},
		},
		{"a victim of another node, ignored", "i", []string{"n2: d"}, "n2: c", []string{all}},
		{
			"null as victim", "-", []string{"n2: null"},
			"keep preemption: extender: %0 claims to preempt pod (UID: <nil>) on node: n2, but the pod is not found on that node", []string{all},
		},
		{"no victims", "-", []string{"n2:; n3: d"}, `keep preemption: expected at least one victim pod on node "n2"`, []string{all}},
		{"null for victims", "-", []string{"n2: none"}, `keep preemption: expected at least one victim pod on node "n2"`, []string{all}},
		{"no victims, ignored", "i", []string{"n2:; n3: d; n1: none"}, "n3: d", []string{all}},
		{"no victims at all, ignored", "i", []string{"n2:"}, "keep preemption: no candidate node for preemption", []string{all}},
	} {
		t.Run(row.name, func(t *testing.T) {
			want := row.want
			var advisers []*adviser
			var extenders []string
			for i, answers := range row.answers {
				a := advise(t, answers)
				advisers = append(advisers, a)
				want = strings.ReplaceAll(want, fmt.Sprint("%", i), a.URL)
				extenders = append(extenders, fmt.Sprintf("{urlPrefix: %q, preemptVerb: p, nodeCacheCapable: %t, ignorable: %t}", a.URL, row.ignorable[i] == 'c', row.ignorable[i] == 'i'))
			}
			c := newAdvised(t, extenders, world()...)
			pod := preemptor("4")
			plugintest.Set(c.state, pod)
			for range 2 { // answers are not cached
				if got := outcome(c.decide(pod)); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
			for i, a := range advisers {
				want := []string{row.asked[i], row.asked[i]}
				if row.asked[i] == "" {
					want = nil
				}
				if !slices.Equal(a.asked, want) {
					t.Errorf("extender %d was asked about %q, want %q", i, a.asked, want)
				}
			}
			if err := c.engine.Audit(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNodesWithoutVictims has an extender that rejects nodes which pass all filters. 1.37
// reports an error. 1.38 lets the extenders that preempt choose victims.
func TestNodesWithoutVictims(t *testing.T) {
	const (
		missing = `keep preemption: expected at least one victim pod on node "n1"`
		none    = "keep preemption: no candidate node for preemption"
		noVerb  = "keep preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod."
	)
	for _, row := range []struct {
		name      string
		ignorable bool // the last extender
		answers   []string
		before    string
		want      string
		asked     []string
	}{
		{"victims added", false, []string{"n1: a"}, missing, "n1: a", []string{"n1:"}},
		{"the same", false, []string{"same"}, missing, none, []string{"n1:"}},
		{"null for victims", false, []string{"n1: none"}, missing, none, []string{"n1:"}},
		{"left out", false, []string{" "}, missing, none, []string{"n1:"}},
		{"added by the second", false, []string{"n1:", "n1: a"}, missing, "n1: a", []string{"n1:", "n1:"}},
		{"removed by the second", false, []string{"n1: a", "n1:"}, missing, missing, []string{"n1:", "n1: a"}},
		{"removed by the second, ignored", true, []string{"n1: a", "n1:"}, missing, none, []string{"n1:", "n1: a"}},
		{"another node", false, []string{"n2:"}, missing, `keep preemption: expected at least one victim pod on node "n2"`, []string{"n1:"}},
		{"without the verb", false, nil, missing, noVerb, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, release := range config.Releases() {
				var advisers []*adviser
				var extenders []string
				for i, answers := range row.answers {
					a := advise(t, answers)
					advisers = append(advisers, a)
					extenders = append(extenders, fmt.Sprintf("{urlPrefix: %q, preemptVerb: p, nodeCacheCapable: true, ignorable: %t}", a.URL, row.ignorable && i > 0))
				}
				full := advise(t, "")
				extenders = append(extenders, fmt.Sprintf("{urlPrefix: %q, filterVerb: nowhere, nodeCacheCapable: true}", full.URL))
				c := newAdvisedFor(t, release, extenders, nodes("n1= n2="), on("n1", "a(10,1)"))
				want, asked := row.before, []string{}
				if release == config.Release38 {
					want, asked = row.want, row.asked
				}
				if got := outcome(c.decide(preemptor("1"))); got != want {
					t.Errorf("%v: got  %s\nwant %s", release, got, want)
				}
				for i, a := range advisers {
					if len(asked) == 0 && len(a.asked) > 0 || len(asked) > 0 && !slices.Equal(a.asked, asked[i:i+1]) {
						t.Errorf("%v: extender %d was asked about %q, want %q", release, i, a.asked, asked)
					}
				}
			}
		})
	}
}

// TestExtendersThatAreNotAsked expects no request about pods outside the extender's
// interest, without candidates, and for extenders without the verb.
func TestExtendersThatAreNotAsked(t *testing.T) {
	a := advise(t, "500")
	c := newAdvised(t, []string{
		fmt.Sprintf("{urlPrefix: %q, preemptVerb: p, managedResources: [{name: example.com/gpu}]}", a.URL),
		fmt.Sprintf("{urlPrefix: %q, prioritizeVerb: p, weight: 1}", a.URL),
	}, nodes("n1= n2="), on("n1", "a(10)"), on("n2", "b(20)"))
	if got := outcome(c.decide(preemptor("4"))); got != "n1: a" {
		t.Errorf("not interested: %s", got)
	}
	c = newAdvised(t, []string{fmt.Sprintf("{urlPrefix: %q, preemptVerb: p}", a.URL)}, nodes("n1="), on("n1", "a(200)"))
	const none = "keep preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
	if got := outcome(c.decide(preemptor("4"))); got != none {
		t.Errorf("no candidate: %s", got)
	}
	if len(a.asked) > 0 {
		t.Errorf("asked about %q", a.asked)
	}
}

// TestExtendersAreAskedAgain changes an extender's answer. The earlier answer is not
// remembered, for the same pod or others like it.
func TestExtendersAreAskedAgain(t *testing.T) {
	a := advise(t, " ")
	c := newAdvised(t, []string{fmt.Sprintf("{urlPrefix: %q, preemptVerb: p}", a.URL)}, nodes("n1= n2="), on("n1", "a(10)"), on("n2", "b(20)"))
	const none = "keep preemption: no candidate node for preemption"
	for _, step := range []struct{ answers, want string }{{" ", none}, {" ", none}, {"n2: b", "n2: b"}, {"same", "n1: a"}, {" ", none}, {"same", "n1: a"}} {
		a.mu.Lock()
		a.answers = step.answers
		a.mu.Unlock()
		if got := outcome(c.decide(preemptor("4"))); got != step.want {
			t.Errorf("answers %q: %s, want %s", step.answers, got, step.want)
		}
	}
	if len(a.asked) != 6 {
		t.Errorf("asked %d times, want 6", len(a.asked))
	}
}
