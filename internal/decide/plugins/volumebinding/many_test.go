package volumebinding

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestManyClaimsAreJudgedAsOneByOne: claims that are judged by class get the same
// verdicts and scores as claims that are checked separately.
func TestManyClaimsAreJudgedAsOneByOne(t *testing.T) {
	byClass := 0
	verdictsSeen := map[string]bool{}
	for seed := range 300 {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		objects := []runtime.Object{class("free", "provisioner=e"), class("zoned", "provisioner=e", build.AllowedTopologies(zone+"=z1"))}
		if r.IntN(2) == 0 {
			objects = append(objects, build.CSIDriver("d", "storageCapacity"))
		}
		for i := range r.IntN(4) {
			objects = append(objects, pool(fmt.Sprint("pool-", i), fmt.Sprintf("class=dp capacity=%dGi", 1+r.IntN(30)), fmt.Sprint(zone+"=z", 1+r.IntN(2))))
		}
		if r.IntN(4) == 0 {
			objects = append(objects, pv("v", fmt.Sprintf("class=free storage=%dGi", 1+r.IntN(30)), on("n1")))
		}
		var names []string
		of := [][]string{{"dp"}, {"free"}, {"dp", "free"}, {"dp", "free", "zoned"}, {"dp", "zoned"}, {"dp", "free", "np"}}[r.IntN(6)]
		for i := range manyClaims + r.IntN(4) {
			name := fmt.Sprint("c", i)
			names = append(names, name)
			objects = append(objects, pvc(name, fmt.Sprintf("class=%s storage=%dGi", of[r.IntN(len(of))], 1+r.IntN(20))))
		}
		w := newWorld(t, configv1.VolumeBindingArgs{}, objects...)
		p := pod(naming(strings.Join(names, " ")))
		found, err := w.plugin.FilterNeedIn(w.View(), p)
		need, rejection := found.Need, found.Rejection
		if rejection != "" || err != nil {
			t.Fatal(rejection, err)
		}
		scored, err := w.plugin.ScoreNeedIn(w.View(), p)
		if err != nil {
			t.Fatal(err)
		}
		fast, slow := need.Compile().NodeVerdicts.(*verdicts), need.Compile().NodeVerdicts.(*verdicts)
		slow.byClass = nil
		rated, err := scored.Compile()
		if err != nil {
			t.Fatal(err)
		}
		rates, each := rated.RawScores.(*scores), *rated.RawScores.(*scores)
		each.byClass = nil
		for _, name := range []string{"n1", "n2"} {
			slot, _ := w.Slot(name)
			node := w.Node(slot)
			if _, _, known := fast.judgeByClass(node); known {
				byClass++
			}
			got, want := fast.Filter(node), slow.Filter(node)
			if got != want {
				t.Fatalf("seed %d: on %s the verdict is %v, want %v", seed, name, fast.Reasons(got), fast.Reasons(want))
			}
			verdictsSeen[fmt.Sprint(fast.Reasons(got))] = true
			if got, want := rates.Score(node), each.Score(node); got != want {
				t.Fatalf("seed %d: %s scores %d, want %d", seed, name, got, want)
			}
		}
	}
	if byClass < 100 || len(verdictsSeen) < 3 {
		t.Errorf("%d verdicts by class, of the kinds %v: the test says little", byClass, verdictsSeen)
	}
}

// TestManyClaimsCostNodesLittle: the verdict on a node where volumes are provisioned
// checks the classes of the claims, and not each claim.
func TestManyClaimsCostNodesLittle(t *testing.T) {
	objects := []runtime.Object{build.CSIDriver("d", "storageCapacity"), pool("a", "class=dp capacity=100Gi", zone+"=z1")}
	var names []string
	for i := range 2000 {
		names = append(names, fmt.Sprint("c", i))
		objects = append(objects, pvc(names[i], fmt.Sprintf("class=dp storage=%d", 1+i)))
	}
	w := newWorld(t, configv1.VolumeBindingArgs{}, objects...)
	found, err := w.plugin.FilterNeedIn(w.View(), pod(naming(strings.Join(names, " "))))
	need := found.Need
	if err != nil {
		t.Fatal(err)
	}
	f := need.Compile().NodeVerdicts.(*verdicts)
	slot, _ := w.Slot("n1")
	node := w.Node(slot)
	if n := testing.AllocsPerRun(10, func() { f.Filter(node) }); n > 1 {
		t.Errorf("the verdict on one node allocates %v times: each claim was looked at", n)
	}
	if len(f.byClass) != 1 || len(f.byClass[0].found) != len(names) {
		t.Errorf("%d classes", len(f.byClass))
	}
}
