package cases_test

import (
	"reflect"
	"testing"

	"github.com/berth-scheduler/berth/parity/internal/cases"
)

func TestSameSeedSameWorld(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range cases.Shapes() {
		if seen[s.Name] {
			t.Errorf("two shapes are called %s", s.Name)
		}
		seen[s.Name] = true
		if !reflect.DeepEqual(s.Draw(7), s.Draw(7)) {
			t.Errorf("%s: the same seed draws different cases", s.Name)
		}
		if reflect.DeepEqual(s.Draw(7), s.Draw(8)) {
			t.Errorf("%s: different seeds draw the same case", s.Name)
		}
	}
}

func TestClone(t *testing.T) {
	tc := cases.VolumeShapes()[0].Draw(3)
	clone := tc.Clone()
	if !reflect.DeepEqual(tc.Objects(), clone.Objects()) {
		t.Fatal("the clone is another case")
	}
	clone.Nodes[0].Name = "changed"
	for i, o := range clone.Objects() {
		if o == tc.Objects()[i] {
			t.Errorf("the clone shares a %T", o)
		}
	}
	if tc.Nodes[0].Name == "changed" {
		t.Error("the clone shares a node")
	}
}

// TestShrink checks that only the objects that the failure needs remain.
func TestShrink(t *testing.T) {
	tc := cases.VolumeShapes()[0].Draw(3)
	pods := []string{tc.Pods[0].Name, tc.Pods[len(tc.Pods)/2].Name}
	fails := func(tc cases.Case) bool {
		found := 0
		for _, p := range tc.Pods {
			for _, name := range pods {
				if p.Name == name {
					found++
				}
			}
		}
		return found == 2 && len(tc.Nodes) > 0
	}
	before := len(tc.Pods)
	small := cases.Shrink(tc, fails)
	if !fails(small) || len(small.Pods) != 2 || len(small.Nodes) != 1 || len(small.Others()) != 0 {
		t.Errorf("%d pods, %d nodes, %d others", len(small.Pods), len(small.Nodes), len(small.Others()))
	}
	if len(tc.Pods) != before {
		t.Error("shrinking changed its argument")
	}
}
