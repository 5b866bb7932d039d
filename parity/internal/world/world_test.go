package world_test

import (
	"reflect"
	"testing"

	"github.com/berth-scheduler/berth/parity/internal/world"
)

func TestSameSeedSameWorld(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range world.Shapes() {
		if seen[s.Name] {
			t.Errorf("two shapes are called %s", s.Name)
		}
		seen[s.Name] = true
		if !reflect.DeepEqual(s.Draw(7), s.Draw(7)) {
			t.Errorf("%s: the same seed draws different worlds", s.Name)
		}
		if reflect.DeepEqual(s.Draw(7), s.Draw(8)) {
			t.Errorf("%s: different seeds draw the same world", s.Name)
		}
	}
}

func TestClone(t *testing.T) {
	w := world.Shapes()[0].Draw(3)
	clone := w.Clone()
	if !reflect.DeepEqual(w.Objects(), clone.Objects()) {
		t.Fatal("the clone is another world")
	}
	clone.Nodes[0].Name = "changed"
	if w.Nodes[0].Name == "changed" {
		t.Error("the clone shares a node")
	}
}

// Shrinking must end with what the failure is about, and nothing else.
func TestShrink(t *testing.T) {
	w := world.Shapes()[0].Draw(3)
	pods := []string{w.Pods[0].Name, w.Pods[len(w.Pods)/2].Name}
	fails := func(w world.World) bool {
		found := 0
		for _, p := range w.Pods {
			for _, name := range pods {
				if p.Name == name {
					found++
				}
			}
		}
		return found == 2 && len(w.Nodes) > 0
	}
	before := len(w.Pods)
	small := world.Shrink(w, fails)
	if !fails(small) || len(small.Pods) != 2 || len(small.Nodes) != 1 || len(small.Others()) != 0 {
		t.Errorf("%d pods, %d nodes, %d others", len(small.Pods), len(small.Nodes), len(small.Others()))
	}
	if len(w.Pods) != before {
		t.Error("shrinking changed the world it was given")
	}
}
