package state

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestNodesShowTheirObjects reads everything of a node that is in its own object.
func TestNodesShowTheirObjects(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), {Kind: model.NodeSet, Node: model.NewNode(build.Node("b", build.Allocatable("cpu=3 pods=7")))}})
	for _, v := range []View{s.View(), s.View().Draft().View()} {
		n := v.Node(1)
		if n.Slot() != 1 || n.Name() != "b" || n.Object() != s.node[1].Object || n.Model() != s.node[1] || n.Storage() != s.storage || v.Storage() != s.storage {
			t.Errorf("slot %d, named %s", n.Slot(), n.Name())
		}
		if n.Allocatable().CPUMilli != 3000 || n.AllowedPods() != 7 || v.Nodes() != 2 {
			t.Errorf("%d of cpu for %d pods, %d nodes", n.Allocatable().CPUMilli, n.AllowedPods(), v.Nodes())
		}
	}
}

// TestViewsAnswerAsTheState compares a view, and a view of a draft, with the state.
func TestViewsAnswerAsTheState(t *testing.T) {
	s := New()
	s.Apply([]model.Change{
		inZone("a", "x"), inZone("b", "y"), {Kind: model.PodSet, Pod: apart("p", "b")}, serviceOf("default", "web", map[string]string{"app": "web"}),
		{Kind: model.ObjectSet, Ref: model.Ref{Kind: model.NamespaceKind, Name: "default"}, Object: build.Namespace("default", "team=a")},
	})
	if got := s.Namespace("default"); len(got) != 1 || got["team"] != "a" || s.Namespace("other") != nil {
		t.Errorf("the namespaces have the labels %v and %v", got, s.Namespace("other"))
	}
	asks := apart("asks", "")
	web := setOfTerms(t, "web", v1.PodAffinityTerm{LabelSelector: build.Selector("app=web"), Namespaces: []string{"default"}})
	key := TopologyKey{Label: "zone"}
	draft := s.View().Draft()
	draft.Add(apart("q", ""), 0)
	for _, v := range []View{s.View(), draft.View()} {
		slot, ok := v.Slot("b")
		domains, sums := v.Domains(key), v.Sums(key)
		if v.State() != s || slot != 1 || !ok || len(domains) != 2 || domains[0] == domains[1] || len(sums) != 2 {
			t.Errorf("slot %d, %t; domains %v, sums %v", slot, ok, domains, sums)
		}
		if !v.InSet(web, asks) || v.InSet(web, model.NewPod(build.Pod())) || v.TermsVersion() != s.terms.version || v.Versions().Terms != s.terms.version {
			t.Error("a pod is not in its set, or the version of the terms is another")
		}
		if terms := v.TermsMatching(asks); len(terms) != 1 || terms[0].Total() != 1 {
			t.Errorf("%d terms select the pod", len(terms))
		}
		if got := v.DefaultSelector(asks).String(); got != "app=web" {
			t.Errorf("the default selector is %s", got)
		}
		if now, same := v.DefaultSelectorVersion(asks, SelectorVersion{}); same || now == (SelectorVersion{}) {
			t.Errorf("the version %+v is that of no pod: %t", now, same)
		}
		if tally := v.Tally(web, key, NodeSet{}); tally.Total() != 1 || tally.Present() != 2 {
			t.Errorf("%d pods are counted in %d domains", tally.Total(), tally.Present())
		}
	}
}

// TestWhichTermsADraftCounts puts a pod with a term of each kind into a draft. A what-if
// counts all of them; a dry run only the terms of other pods that filters read.
func TestWhichTermsADraftCounts(t *testing.T) {
	s := New()
	s.Apply([]model.Change{inZone("a", "x"), inZone("b", "y")})
	term := build.Term("zone", "app=web")
	pod := model.NewPod(build.Pod(
		build.Labels("app=web"), build.RequiredAffinity(term), build.RequiredAntiAffinity(term), build.PreferredAffinity(3, term), build.PreferredAntiAffinity(5, term),
	))
	kinds := func(v View) (all []string) {
		v.TermDifferences(pod, func(term Matching, differences []Difference) {
			all = append(all, fmt.Sprintf("%d*%d%v", term.Kind, term.Weight, differences))
			if other := v.TermDifference(term.TermCounts); !slices.Equal(other, differences) {
				t.Errorf("the differences of a term are %v and %v", differences, other)
			}
		})
		slices.Sort(all)
		return all
	}
	whatIf, dryRun := s.View().Draft(), s.View().DryRun(new(Draft))
	for _, d := range []*Draft{whatIf, dryRun} {
		d.Add(pod, 1)
	}
	if got := kinds(whatIf.View()); fmt.Sprint(got) != "[0*0[{1 1}] 1*0[{1 1}] 2*3[{1 1}] 3*5[{1 1}]]" {
		t.Errorf("a what-if counts %v", got)
	}
	if got := kinds(dryRun.View()); fmt.Sprint(got) != "[1*0[{1 1}]]" {
		t.Errorf("a dry run counts %v", got)
	}
	if got := kinds(s.View()); len(got) != 0 || s.View().TermDifference(&TermCounts{}) != nil || whatIf.View().TermDifference(&TermCounts{}) != nil {
		t.Errorf("the state counts %v", got)
	}
}

// TestUncountedSets has a tally of a set that counts 0 by definition: pods that it
// selects come and go, and only a dry run counts them.
func TestUncountedSets(t *testing.T) {
	s := New()
	s.Apply([]model.Change{inZone("a", "x"), inZone("b", "y"), {Kind: model.PodSet, Pod: apart("p", "a")}})
	set := setOfTerms(t, "uncounted", v1.PodAffinityTerm{
		LabelSelector: build.Selector("app=web"), Namespaces: []string{"default"},
	})
	set.Uncounted = true
	tally := s.Tally(set, TopologyKey{Label: "zone"}, NodeSet{})
	s.View().KeepLeast(tally)
	audited(t, s)
	s.Apply([]model.Change{{Kind: model.PodSet, Pod: apart("q", "b")}, {Kind: model.PodSet, Pod: apart("r", "b")}})
	s.Apply([]model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: "default", Name: "r"}}, inZone("a", "z")})
	if audited(t, s); tally.Total() != 0 || s.View().Differences(tally, nil) != nil {
		t.Errorf("%d pods are counted", tally.Total())
	}
	whatIf, dryRun := s.View().Draft(), s.View().DryRun(new(Draft))
	for _, d := range []*Draft{whatIf, dryRun} {
		d.Remove(model.PodKey{Namespace: "default", Name: "p"})
		d.Add(model.NewPod(build.Pod(build.Named("other"))), 0)
	}
	if got := whatIf.View().Differences(tally, nil); len(got) != 0 {
		t.Errorf("a what-if counts %v more", got)
	}
	domain := tally.Domains()[0]
	if got := dryRun.View().Differences(tally, []Difference{{domain, 9}}); !slices.Equal(got, []Difference{{domain, 9}, {domain, -1}}) {
		t.Errorf("a dry run counts %v more, behind another tally's", got)
	}
	s.dropTallies(func(*Tally) bool { return true })
	if audited(t, s); s.Tallies() != 0 || len(s.tallies.bySet)+len(s.tallies.selectNamespaces) != 0 {
		t.Errorf("%d tallies are left, and %d sets", s.Tallies(), len(s.tallies.bySet))
	}
}

// TestPodsOnCanBeLeftInADraft stops the iteration over the pods of a node at each of
// them, the state's and the draft's.
func TestPodsOnCanBeLeftInADraft(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("a"), node("b"), podOn("p", "1", "a", 1), podOn("q", "2", "a", 1), podOn("gone", "3", "a", 1)})
	d := s.View().Draft()
	d.Remove(model.PodKey{Namespace: "ns", Name: "gone"})
	for _, name := range []string{"r", "s"} {
		d.Add(podOn(name, name, "", 1).Pod, 0)
	}
	d.Add(podOn("elsewhere", "5", "", 1).Pod, 1)
	for stop := range 6 {
		var seen []string
		for pod := range d.View().PodsOn(0) {
			if seen = append(seen, pod.Name); len(seen) == stop {
				break
			}
		}
		want := []string{"p", "q", "r", "s"}
		if stop > 0 {
			want = want[:min(stop, 4)]
		}
		if !slices.Equal(seen, want) {
			t.Errorf("stopping at %d: %v were seen, want %v", stop, seen, want)
		}
	}
}

// TestDraftsAnswerAsTheStateWould adds pods to nodes and removes others, in a draft and
// then in the state: both have the same nodes and counts. The draft has changed nothing
// of the state.
func TestDraftsAnswerAsTheStateWould(t *testing.T) {
	const nodes = 3
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 8))
		number := 0
		pod := func() *model.Pod {
			number++
			options := []build.PodOption{build.Named(fmt.Sprint("p", number)), build.Labels(fmt.Sprint("app=", r.IntN(2)))}
			for range r.IntN(3) {
				options = append(options, build.Container(fmt.Sprintf("cpu=%d memory=%d example.com/gpu=%d", r.IntN(3), r.IntN(3), r.IntN(2))))
			}
			if r.IntN(3) == 0 {
				options = append(options, build.RequiredAntiAffinity(build.Term("zone", "app=0")))
			}
			if r.IntN(4) == 0 {
				options = append(options, build.Terminating)
			}
			p := build.Pod(options...)
			for i := range p.Spec.Containers {
				p.Spec.Containers[i].Ports = []v1.ContainerPort{{HostPort: 1 + r.Int32N(3)}}
			}
			p.Spec.Priority = new(r.Int32N(2))
			return model.NewPod(p)
		}
		s := New()
		for i := range nodes {
			s.Apply([]model.Change{inZone(fmt.Sprint("n", i), fmt.Sprint(i%2))})
		}
		place := func(p *model.Pod, slot int32) { s.Assume(placementOf(p, s.node[slot].Name)) }
		on := map[types.UID]*model.Pod{}
		for range 6 {
			p := pod()
			on[p.UID] = p
			place(p, r.Int32N(nodes))
		}
		tallies := []*Tally{}
		for i, selector := range []string{"app=0", "app Exists"} {
			set := setOfTerms(t, selector, v1.PodAffinityTerm{LabelSelector: build.Selector(selector), Namespaces: []string{"default"}})
			set.Staying = i == 1
			tallies = append(tallies, s.Tally(set, TopologyKey{Label: "zone"}, NodeSet{}))
			s.View().KeepLeast(tallies[i])
		}
		asks := model.NewPod(build.Pod(build.Labels("app=0")))
		look := func(v View) (text string) {
			for slot := range int32(nodes) {
				n := v.Node(slot)
				cpu, memory := n.NonZeroUsed()
				used := *n.Used()
				used.Scalars = nil
				gpu := int64(0)
				for _, x := range n.Used().Scalars {
					gpu += x.Value
				}
				text += fmt.Sprint(n.Name(), used, gpu, cpu, memory, n.PodCount())
				for port := range int32(4) {
					text += fmt.Sprint(" ", n.PortInUse([]model.HostPort{{Port: port, Protocol: v1.ProtocolTCP, IP: model.AnyIP}}))
				}
				var names []string
				for p := range v.PodsOn(slot) {
					names = append(names, p.Name)
				}
				slices.Sort(names)
				text += fmt.Sprintln(names)
			}
			for _, tally := range tallies {
				differences := v.Differences(tally, nil)
				for domain := range 2 {
					if counts := v.ExpandedWith(tally, differences); domain < len(counts) && counts[domain] != 0 {
						text += fmt.Sprint(counts[domain], " pods in domain ", domain, ", ")
					}
				}
				text += fmt.Sprintln(tally.TotalWith(differences), tally.Least(differences))
			}
			total := int64(0)
			for _, term := range v.TermsMatching(asks) {
				total += term.TotalWith(v.TermDifference(term.TermCounts))
			}
			if v.d != nil { // terms that no pod of the state carries
				v.TermDifferences(asks, func(term Matching, differences []Difference) {
					if !term.InState() {
						total += term.TotalWith(differences)
					}
				})
			}
			return text + fmt.Sprintln(total, "carriers")
		}
		d := s.View().Draft()
		untouched := look(s.View())
		var steps []func()
		for range 1 + r.IntN(8) {
			if uids := slices.Sorted(maps.Keys(on)); r.IntN(2) == 0 && len(uids) > 0 {
				p := on[uids[r.IntN(len(uids))]]
				delete(on, p.UID)
				d.Remove(p.Key())
				steps = append(steps, func() { s.Apply([]model.Change{{Kind: model.PodGone, Key: p.Key()}}) })
				continue
			}
			p, slot := pod(), r.Int32N(nodes)
			on[p.UID] = p
			d.Add(p, slot)
			steps = append(steps, func() { place(p, slot) })
		}
		want := look(d.View())
		if got := look(s.View()); got != untouched {
			t.Fatalf("seed %d: the draft has changed the state from\n%sto\n%s", seed, untouched, got)
		}
		audited(t, s)
		for _, step := range steps {
			step()
		}
		audited(t, s)
		if got := look(s.View()); got != want {
			t.Fatalf("seed %d: the draft said\n%sand the state says\n%s", seed, want, got)
		}
	}
}

// TestNamespacesOfSeveralTerms counts pods that two terms must select, where one term
// selects namespaces by label. The namespace's labels change. Only a change of the
// selected namespaces recounts the pods.
func TestNamespacesOfSeveralTerms(t *testing.T) {
	s := New()
	p := build.Pod(build.InNamespace("other"), build.NodeName("a"), build.Labels("app=web"))
	s.Apply([]model.Change{node("a"), {Kind: model.PodSet, Pod: model.NewPod(p)}})
	web := build.Selector("app=web")
	set := setOfTerms(t, "both", v1.PodAffinityTerm{LabelSelector: web, Namespaces: []string{"other"}}, v1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: build.Selector("team=a")})
	sets := []PodSet{set, setOfTerms(t, "not b", v1.PodAffinityTerm{LabelSelector: web, NamespaceSelector: build.Selector("team NotIn b")})}
	for _, step := range []struct {
		what   string
		labels labels.Set
		exists bool
		counts [2]int64
		built  int64
	}{
		{"nothing", nil, false, [2]int64{0, 0}, 2},
		{"no label", labels.Set{}, true, [2]int64{0, 1}, 1},
		{"the label", labels.Set{"team": "a"}, true, [2]int64{1, 1}, 1},
		{"the same", labels.Set{"team": "a"}, true, [2]int64{1, 1}, 0},
		{"another label", labels.Set{"team": "a", "env": "x"}, true, [2]int64{1, 1}, 0},
		{"another value", labels.Set{"team": "c"}, true, [2]int64{0, 1}, 1},
		{"a value that one excludes", labels.Set{"team": "b"}, true, [2]int64{0, 0}, 1},
		{"again a value", labels.Set{"team": "a"}, true, [2]int64{1, 1}, 2},
		{"gone", nil, false, [2]int64{0, 0}, 2},
	} {
		ref := model.Ref{Kind: model.NamespaceKind, Name: "other"}
		if step.exists {
			n := build.Namespace("other", "")
			n.Labels = step.labels
			s.Apply([]model.Change{{Kind: model.ObjectSet, Ref: ref, Object: n}})
		} else {
			s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: ref}})
		}
		_, before := s.TallyWork()
		for i := range sets {
			if got := s.Tally(sets[i], TopologyKey{}, NodeSet{}).Total(); got != step.counts[i] {
				t.Errorf("%s: %q counts %d pods, want %d", step.what, sets[i].Text, got, step.counts[i])
			}
		}
		if _, built := s.TallyWork(); built-before != step.built {
			t.Errorf("%s: %d tallies were built, want %d", step.what, built-before, step.built)
		}
		audited(t, s)
	}
}

// TestDraftsOfNominatedPods puts a nominated pod on its node in a draft: it is not
// nominated there until the draft removes it again.
func TestDraftsOfNominatedPods(t *testing.T) {
	s := New()
	p := nominatedPod("p", "a", 5)
	s.Apply([]model.Change{node("a"), {Kind: model.PodSet, Pod: p}})
	d := s.View().Draft()
	asks := nominatedPod("asks", "", 5)
	for i, step := range []func(){func() {}, func() { d.Add(nominatedPod("other", "", 1), 0) }, func() { d.Add(p, 0) }, func() { d.Remove(p.Key()) }} {
		step()
		want := 1
		if i == 2 {
			want = 0
		}
		if got := d.View().NominatedBefore(asks, 0); len(got) != want {
			t.Errorf("step %d: %v are nominated, want %d", i, got, want)
		}
	}
}
