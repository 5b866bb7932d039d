package nodedeclaredfeatures

import (
	"slices"
	"testing"

	"k8s.io/component-helpers/nodedeclaredfeatures"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	p := New()
	plugintest.CheckContract(t, p, plugintest.Contract{
		Name: "NodeDeclaredFeatures", FilterReads: model.Features,
		Events: []string{"NodeAdd NodeUpdateNodeDeclaredFeature, hint", "TargetPodUpdate, hint"},
	})
	for version, p := range map[string]*Plugin{"1.37": p, "1.38": New38()} {
		if p.version.String() != version || !slices.IsSorted(p.known) {
			t.Errorf("version %s, features %v", p.version, p.known)
		}
	}
}

// Each known feature, and each pair of them, is matched against declared features that
// are known, unknown before and between them, or absent.
func TestEachFeature(t *testing.T) {
	known := New38().known
	for i, one := range known {
		for j, other := range known[i:] {
			f := filter{known: known, required: make([]bool, len(known)), count: 1}
			f.required[i] = true
			declared := []string{one}
			if j > 0 {
				f.required[i+j], f.count = true, 2
				declared = append(declared, other)
			}
			for _, row := range []struct {
				declared []string
				fits     bool
			}{
				{declared, true}, {known, true}, {nil, false}, {declared[1:], false}, {declared[:len(declared)-1], false},
				{slices.Concat([]string{"A"}, declared[:1], []string{one + "x"}, declared[1:], []string{"zz"}), true},
				{slices.DeleteFunc(slices.Clone(known), func(name string) bool { return name == one }), false},
			} {
				if got := f.Filter(node(row.declared...)) == 0; got != row.fits {
					t.Errorf("required %s and %s, declared %q: fits = %t", one, other, row.declared, got)
				}
			}
		}
	}
}

// A plugin without a version panics with its action, since no pod can be compiled then.
func TestMissingVersion(t *testing.T) {
	defer func() {
		_, err := nodedeclaredfeatures.DefaultFramework.InferForPodScheduling(&nodedeclaredfeatures.PodInfo{Spec: &pod(users).Object.Spec}, nil)
		if got, want := recover(), "nodedeclaredfeatures: infer the features of a pod: "+err.Error(); got != want {
			t.Errorf("got %v, want %s", got, want)
		}
	}()
	(&Plugin{library: nodedeclaredfeatures.DefaultFramework}).FilterNeed(pod(users))
}
