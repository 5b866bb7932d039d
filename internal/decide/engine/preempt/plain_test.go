package preempt_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine/preempt"
	"github.com/berth-scheduler/berth/internal/decide/engine/rank"
	"github.com/berth-scheduler/berth/internal/decide/plugins/defaultpreemption"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// asked is the turn as preemption sees it.
type asked interface {
	plugin.Cycle
	Potential() []int32
	Objection(dryRun *state.Draft, slot int32) preempt.Objection
	Reasons(o preempt.Objection) ([]string, error)
}

// plain is the search as specified: every potential node is tried, in a dry run of all
// filters, without a cache.
func plain(c asked, rules plugin.PreemptionRules, pod *model.Pod, seed uint64) string {
	var best *plugin.Candidate
	var objections reason.Tally
	var errs []error
	tie := func(node string) uint64 {
		return rank.Tie(rank.Mix(seed^state.HashName(pod.Namespace+"/"+pod.Name)), rank.Mix(state.HashName(node)))
	}
	potential := c.Potential()
	for _, slot := range slices.Clone(potential) {
		var lower []*model.Pod
		for other := range c.View().PodsOn(slot) {
			if other.Priority < pod.Priority {
				lower = append(lower, other)
			}
		}
		if len(lower) == 0 {
			objections.Add(1, "No preemption victims found for incoming pod")
			continue
		}
		found, o := plainVictims(c, rules, slot, lower)
		if !o.IsNone() {
			texts, err := c.Reasons(o)
			if err != nil {
				errs = append(errs, err)
			}
			objections.Add(1, texts...)
			continue
		}
		if best == nil || plainlyBetter(c.View(), tie, found, best) {
			best = found
		}
	}
	switch {
	case best != nil:
		return describe(c.View(), best, nil, nil)
	case len(errs) > 0:
		return describe(c.View(), nil, nil, utilerrors.NewAggregate(errs))
	}
	if n := c.View().Nodes() - len(potential); n > 0 {
		objections.Add(n, "Preemption is not helpful for scheduling")
	}
	return describe(c.View(), nil, &plan.Rejection{Counts: objections.Counts()}, nil)
}

func plainVictims(c asked, rules plugin.PreemptionRules, slot int32, lower []*model.Pod) (*plugin.Candidate, preempt.Objection) {
	dryRun := c.View().DryRun(new(state.Draft))
	for _, pod := range lower {
		dryRun.Remove(pod.Key())
	}
	if o := c.Objection(dryRun, slot); !o.IsNone() {
		return nil, o
	}
	slices.SortFunc(lower, moreImportant(rules))
	var violating, rest []*model.Pod
	taken := map[*state.Budget]int32{}
	for _, pod := range lower {
		violates := false
		for _, budget := range c.View().Budgets(pod.Namespace) {
			if !violates && budget.Covers(pod, rules.Budgets) {
				taken[budget]++
				violates = taken[budget] > budget.Allowed
			}
		}
		if violates {
			violating = append(violating, pod)
		} else {
			rest = append(rest, pod)
		}
	}
	found := &plugin.Candidate{Slot: slot}
	for i, pod := range slices.Concat(violating, rest) {
		dryRun.Add(pod, slot)
		if c.Objection(dryRun, slot).IsNone() {
			continue
		}
		dryRun.Remove(pod.Key())
		found.Victims = append(found.Victims, pod)
		if i < len(violating) {
			found.Violations++
		}
	}
	slices.SortFunc(found.Victims, moreImportant(rules))
	return found, preempt.Objection{}
}

func moreImportant(rules plugin.PreemptionRules) func(a, b *model.Pod) int {
	name := func(p *model.Pod) string { return p.Namespace + "/" + p.Name }
	if rules.TiesByUID {
		name = func(p *model.Pod) string { return string(p.UID) }
	}
	return func(a, b *model.Pod) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), cmp.Compare(startTime(a), startTime(b)), cmp.Compare(name(a), name(b)))
	}
}

func startTime(pod *model.Pod) int64 {
	if seconds, ok := pod.Started(); ok {
		return seconds
	}
	return math.MaxInt64
}

func plainlyBetter(v state.View, tie func(node string) uint64, a, b *plugin.Candidate) bool {
	sum := func(of *plugin.Candidate) (sum int64) {
		for _, pod := range of.Victims {
			sum += int64(pod.Priority) + 1<<31
		}
		return sum
	}
	return cmp.Or(
		cmp.Compare(a.Violations, b.Violations), cmp.Compare(a.Victims[0].Priority, b.Victims[0].Priority), cmp.Compare(sum(a), sum(b)),
		cmp.Compare(len(a.Victims), len(b.Victims)), -cmp.Compare(startTime(a.Victims[0]), startTime(b.Victims[0])), -cmp.Compare(tie(v.Node(a.Slot).Name()), tie(v.Node(b.Slot).Name())),
	) < 0
}

func describe(v state.View, found *plugin.Candidate, rejection *plan.Rejection, err error) string {
	switch {
	case err != nil:
		return "error " + err.Error()
	case found == nil:
		return rejection.Text(v.Nodes())
	}
	text := fmt.Sprintf("%s, %d violations:", v.Node(found.Slot).Name(), found.Violations)
	for _, pod := range found.Victims {
		text += " " + pod.Name
	}
	return text
}

// compared wraps the plugin and compares its search with the plain one.
type compared struct {
	plugin *plugin.PostFilter
	t      *testing.T
	seed   uint64
	found  map[bool]int
}

func (x *compared) part() *plugin.PostFilter {
	part := *x.plugin
	part.Run = x.run
	return &part
}

func (x *compared) run(c plugin.Cycle, pod *model.Pod) (plugin.PostFilterResult, error) {
	want := plain(c.(asked), x.plugin.Group.Rules, pod, x.seed)
	for range 2 { // the second time with the cache of the first
		found, err := c.Preempt(x.plugin.Group.Rules)
		if found.Ineligible != "" {
			continue
		}
		x.found[found.Candidate != nil]++
		if got := describe(c.View(), found.Candidate, found.Rejection, err); got != want {
			x.t.Errorf("pod %s:\ngot  %s\nwant %s", pod.Name, got, want)
		}
	}
	return x.plugin.Run(c, pod)
}

// compareSearches compares each search of the plugin with the plain one. found counts the
// searches with and without victims.
func (c *cluster) compareSearches(t *testing.T, seed uint64, found map[bool]int) {
	for i, p := range c.config.Profiles[0].PostFilters {
		if p.Name == defaultpreemption.Name {
			c.config.Profiles[0].PostFilters[i] = (&compared{p, t, seed, found}).part()
		}
	}
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// TestAgreesWithThePlainSearch compares searches in changing clusters, by the rules of
// each release. Pods come, go, start and are nominated, victims are evicted, budgets
// change.
func TestAgreesWithThePlainSearch(t *testing.T) {
	build.NotRaced(t)
	found := map[bool]int{}
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed-", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			c := newClusterFor(t, config.Releases()[seed%2], seed)
			c.compareSearches(t, seed, found)
			w := &world{r: r, c: c}
			for range 3 + r.IntN(6) {
				w.addNode()
			}
			for range 30 {
				w.addPod()
			}
			for step := range 60 {
				w.change()
				pod := w.preemptor(step)
				plugintest.Set(c.state, pod)
				d := c.decide(pod)
				switch {
				case d.Outcome == plan.Placed:
				case d.Outcome == plan.Unschedulable && r.IntN(2) == 0:
					w.carryOut(d)
				}
				if err := errors.Join(c.engine.Audit(), c.state.Audit()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if found[true] < 100 || found[false] < 100 {
		t.Errorf("found victims or not: %v", found)
	}
}

type world struct {
	r     *rand.Rand
	c     *cluster
	nodes int
	pods  []*v1.Pod
}

// carryOut applies a decision, and removes some of the victims at once.
func (w *world) carryOut(d plan.Decision) {
	w.c.state.Nominate(d.Nominations...)
	w.c.state.Evict(d.Evictions...)
	for _, e := range d.Evictions {
		if w.r.IntN(2) == 0 {
			w.c.state.Apply([]model.Change{{Kind: model.PodGone, Key: e.Pod.Key()}})
		}
	}
}

func (w *world) set(o runtime.Object) { plugintest.Set(w.c.state, o) }

func (w *world) addNode() {
	name := fmt.Sprint("n", w.nodes)
	w.nodes++
	for _, n := range build.NodesInZones(name+"="+pick(w.r, "z1", "z2"), build.Allocatable(fmt.Sprintf("cpu=%d memory=%dGi pods=%d", 4+w.r.IntN(5), 4+w.r.IntN(12), 5+w.r.IntN(8)))) {
		w.set(n)
	}
}

func (w *world) requests() string {
	return fmt.Sprintf("cpu=%dm memory=%dMi", 250*(1+w.r.IntN(9)), 256*w.r.IntN(9))
}

func (w *world) addPod() {
	p := build.Pod(build.Named(fmt.Sprint("v", len(w.pods))), build.NodeName(fmt.Sprint("n", w.r.IntN(w.nodes))), priority(pick(w.r, -5, 0, 0, 10, 10, 50, 200)),
		build.Container(w.requests()), build.Labels(pick(w.r, "app=a", "app=b", "app=c", "")))
	p.UID = types.UID(fmt.Sprintf("%x", w.r.Uint64())) // in another order than the names
	w.start(p)
	if w.r.IntN(10) == 0 {
		build.Terminating(p)
	}
	if w.r.IntN(10) == 0 {
		hostPort(80)(p)
	}
	w.pods = append(w.pods, p)
	w.set(p)
}

func (w *world) start(p *v1.Pod) {
	if w.r.IntN(3) > 0 {
		p.Status.StartTime = &metav1.Time{Time: time.Unix(int64(1000+w.r.IntN(5)), 0)}
	}
}

func (w *world) change() {
	switch w.r.IntN(6) {
	case 0, 1:
		w.addPod()
	case 2:
		p := w.pods[w.r.IntN(len(w.pods))]
		if _, _, on := w.c.state.NodeOf(model.NewPod(p).Key()); on {
			p = p.DeepCopy()
			p.Labels = build.LabelSet(pick(w.r, "app=a", "app=b", "app=c", ""))
			w.start(p)
			w.set(p)
		}
	case 3:
		for _, o := range budget(pick(w.r, "x", "y"), pick(w.r, "app In a", "app In a,b", "app In b,c", "app In b,c", "everything", "app DoesNotExist"), int32(w.r.IntN(3))) {
			w.set(o)
		}
	case 4:
		if w.r.IntN(4) == 0 {
			w.addNode()
		}
	}
}

func (w *world) preemptor(step int) *v1.Pod {
	options := []build.PodOption{build.Named(fmt.Sprint("p", step)), priority(pick(w.r, 1, 20, 20, 100, 100, 100)), build.Container(pick(w.r, "cpu=2 memory=1Gi", "cpu=2 memory=1Gi", "cpu=4", w.requests()))}
	switch w.r.IntN(8) {
	case 0:
		options = append(options, build.RequiredAntiAffinity(build.Term(pick(w.r, v1.LabelHostname, v1.LabelTopologyZone), "app="+pick(w.r, "a", "b"))))
	case 1:
		options = append(options, hostPort(80))
	case 2:
		options = append(options, build.NodeSelector(v1.LabelTopologyZone+"="+pick(w.r, "z1", "z2")))
	case 3:
		options = append(options, build.NominatedNodeName(fmt.Sprint("n", w.r.IntN(w.nodes))))
	case 4:
		options = append(options, build.DoNotSchedule(v1.LabelTopologyZone, "app=a"), build.Labels("app=a"))
	}
	return build.Pod(options...)
}
