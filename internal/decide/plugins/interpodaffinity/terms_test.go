package interpodaffinity

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// The cache of parsed terms is bounded, and still works after it was full: a repeated
// term is not parsed again.
func TestParsedTermsAreBounded(t *testing.T) {
	var terms parsedTerms
	ref := func(app string) *model.TermRef {
		pod := model.NewPod(&v1.Pod{Spec: v1.PodSpec{Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
				TopologyKey: "zone", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			}},
		}}}})
		return &pod.Terms[0]
	}
	known := func() (n int) {
		terms.known.Range(func(any, any) bool { n++; return true })
		return n
	}
	parse := func(app string) *model.Term {
		t.Helper()
		term, err := terms.parse("default", ref(app))
		if err != nil || !term.Selector.Matches(labels.Set{"app": app}) {
			t.Fatalf("the term of app %s: %v, %v", app, term, err)
		}
		return term
	}
	for i := range parsedTermsKept {
		parse(fmt.Sprint(i))
	}
	first := parse("0")
	if n := known(); n != parsedTermsKept {
		t.Fatalf("%d terms are kept, want %d", n, parsedTermsKept)
	}
	if parse("0") != first {
		t.Error("a term that is kept was parsed again")
	}
	parse("one-more")
	if n := known(); n != 1 {
		t.Errorf("%d terms are kept after there were too many, want the last one", n)
	}
	for i := range 100 {
		parse(fmt.Sprint("later-", i))
	}
	if n := known(); n != 101 || terms.count.Load() != 101 {
		t.Errorf("%d terms are kept and %d were counted, want 101", n, terms.count.Load())
	}
	if again := parse("0"); again == first {
		t.Error("a term that was dropped is kept")
	}
}

// The terms of a topology key are listed together, however often the terms of other pods
// change.
func TestRelationsByKey(t *testing.T) {
	zone, host := state.TopologyKey{Label: "zone"}, state.TopologyKey{Label: "host"}
	var c set
	for range 3 {
		for _, key := range []state.TopologyKey{zone, host, zone} {
			if of := c.under(key); of.key != key {
				t.Errorf("under %v are the relations of %v", key, of.key)
			}
		}
	}
	if len(c.byKey) != 2 || c.under(zone) != &c.byKey[0] || c.under(host) != &c.byKey[1] {
		t.Errorf("relations are listed %d times for 2 keys", len(c.byKey))
	}
}

// Scores are scaled as by dividing each, whatever the kept table was built for.
func TestStretchAfterStretch(t *testing.T) {
	var shares shares
	for _, span := range []int64{100, 50, 57, 29, 100, 7, 1, 0, 1, tabulated + 1, 50, tabulated, 2000, 58} {
		for _, nodes := range []int64{2, 3, span + 1, 2*span + 2} {
			for _, low := range []int64{0, -30, 12} {
				scores, want := make([]int64, max(nodes, 2)), make([]int64, max(nodes, 2))
				for i := range scores {
					above := int64(i) % (span + 1)
					if i == 1 {
						above = span
					}
					if scores[i] = low + above; span > 0 {
						want[i] = share(above, span)
					}
				}
				if shares.stretch(scores); !slices.Equal(scores, want) {
					t.Fatalf("a span of %d from %d on, %d nodes: %v, want %v", span, low, len(scores), scores, want)
				}
			}
		}
	}
}
