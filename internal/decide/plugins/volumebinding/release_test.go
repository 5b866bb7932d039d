package volumebinding

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// rejectedCycle is a turn with a view and nothing else.
type rejectedCycle struct {
	plugin.Cycle
	view state.View
}

func (c rejectedCycle) View() state.View { return c.view }

// released returns the claims that PostFilter releases, with the node that must not
// exist.
func (w *world) released(t *testing.T, pod *model.Pod) string {
	t.Helper()
	result, err := w.plugin.PostFilter(rejectedCycle{view: w.View()}, pod)
	if err != nil || result.Message != "" || result.Done {
		t.Errorf("%+v, %v", result, err)
	}
	if own := w.plugin.LooksAtOwn(w.View(), pod); own != (len(result.Writes) > 0) {
		t.Errorf("%d writes, and the plugin looks at objects of the pod: %t", len(result.Writes), own)
	}
	var texts []string
	for _, write := range result.Writes {
		const want = `"annotations":{"volume.kubernetes.io/selected-node":null}}}`
		if !strings.HasSuffix(string(write.Data), want) || !strings.Contains(string(write.Data), `"resourceVersion":"7"`) {
			t.Errorf("the patch of %s is %s", write.Name, write.Data)
		}
		text := write.Name
		if write.IfAbsent != nil {
			text += " without " + write.IfAbsent.Resource.Resource + " " + write.IfAbsent.Name
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// TestRelease has claims with a selected node. Only claims to provision for a node that
// does not exist are released.
func TestRelease(t *testing.T) {
	for _, row := range []struct{ name, claims, want string }{
		{"the node exists", "c: class=dp node=n1", ""},
		{"the node is gone", "c: class=dp node=n9", "c without nodes n9"},
		{"no node is selected", "c: class=dp", ""},
		{"no node has such a name", "c: class=dp node=../pods", "c"},
		{"the name is empty", "c: class=dp node=", "c"},
		{"it is bound", "c: class=dp node=n9 bound=v", ""},
		{"its volume is bound to it", "c: class=dp node=n9 volume=v", ""},
		{"its class does not wait", "c: class=now node=n9", ""},
		{"it is being deleted", "c: class=dp node=n9 deleted", ""},
		{"one of two", "c: class=dp node=n9; d: class=dp node=n2", "c without nodes n9"},
		{"two", "c: class=dp node=n9; d: class=dp node=n8", "c without nodes n9, d without nodes n8"},
		{"named twice", "c: class=dp node=n9; c: class=dp node=n9", "c without nodes n9"},
	} {
		w := newWorld(t, timeout(60))
		var names []string
		for entry := range strings.SplitSeq(row.claims, "; ") {
			name, text, _ := strings.Cut(entry, ": ")
			names = append(names, name)
			text, deleted := strings.CutSuffix(text, " deleted")
			claim := pvc(name, text+" storage=1Gi version=7")
			if deleted {
				claim.DeletionTimestamp = &claim.CreationTimestamp
			}
			w.set(claim)
		}
		if got := w.released(t, pod(naming(strings.Join(names, " ")))); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
}

// TestReleaseWaitsForAPlacement has a placement select a node for a claim whose own node
// was deleted. While that is being written, the claim is not released.
func TestReleaseWaitsForAPlacement(t *testing.T) {
	w := newWorld(t, timeout(60), pvc("c", "class=dp storage=1Gi version=6"))
	placement, err := w.reserve(pod(naming("c")), "n1")
	if err != nil {
		t.Fatal(err)
	}
	w.Assume(*placement)
	w.Apply([]model.Change{{Kind: model.NodeGone, Name: "n1"}})
	if got := w.released(t, pod(build.Named("q"), naming("c"))); got != "" {
		t.Errorf("released: %q", got)
	}
	w.set(pvc("c", "class=dp storage=1Gi version=7 node=n1"))
	if got := w.released(t, pod(build.Named("q"), naming("c"))); got != "c without nodes n1" {
		t.Errorf("released when the choice is stored: %q", got)
	}
}

// TestReleaseForGroup has members with claims of their own and a shared one.
func TestReleaseForGroup(t *testing.T) {
	w := newWorld(t, timeout(60), pvc("a", "class=dp version=7 node=n9"), pvc("b", "class=dp version=7 node=n8"), pvc("c", "class=dp version=7"))
	cycle := rejectedCycle{view: w.View()}
	var notes []plugin.GroupNote
	for _, claims := range []string{"a c", "b a", "c"} {
		member := pod(naming(claims))
		if concerns := w.plugin.ConcernsGroup(w.View(), member); concerns != (claims != "c") {
			t.Errorf("the member with the claims %q concerns the plugin: %t", claims, concerns)
		}
		if note := w.plugin.Member(cycle, member); note != nil {
			notes = append(notes, note)
		}
	}
	freed, err := w.plugin.FreeForGroup(w.View(), nil, nil, notes)
	var names []string
	for _, write := range freed.Writes {
		names = append(names, write.Name)
	}
	if got := strings.Join(names, " "); got != "a b" || err != nil || freed.Done || freed.Message != "" {
		t.Errorf("released: %q, %+v, %v", got, freed, err)
	}
	if freed, err := w.plugin.FreeForGroup(w.View(), nil, nil, nil); len(freed.Writes) > 0 || err != nil {
		t.Errorf("without notes: %+v, %v", freed, err)
	}
}

// TestSelectedNodeGoes wakes the pods with a claim for a deleted node, and no others.
func TestSelectedNodeGoes(t *testing.T) {
	w := newWorld(t, timeout(60), pvc("c", "class=dp node=n1"), pvc("d", "class=dp node=n2"), pvc("e", "class=dp"), pvc("b", "class=dp node=n1 bound=v"))
	gone := model.Event{Resource: model.NodeEvent, Action: model.Delete, OldNode: model.NewNode(build.Node("n1"))}
	for claims, want := range map[string]bool{"c": true, "d": false, "e": false, "b": false, "d c": true, "missing": false} {
		asked := w.plugin.AskedIn(w.View(), pod(naming(claims)))
		for _, r := range w.plugin.EventsToRegister() {
			if !r.Concerns(gone) {
				continue
			}
			helps := r.Asked.Hint(asked, gone)
			if found := plugintest.Meets(&r, r.Asked.Cause(asked), gone); helps != want || found != want {
				t.Errorf("claims %q: woken: %t, found: %t, want %t", claims, helps, found, want)
			}
		}
	}
	if asked := w.plugin.AskedIn(w.View(), pod()); asked != (model.Need{}) {
		t.Errorf("a pod without claims asks %q", asked)
	}
}

// TestReleasedClaimIsPlaced runs the whole sequence: the pod is rejected with
// kube-scheduler's message, and fits when the claim is released.
func TestReleasedClaimIsPlaced(t *testing.T) {
	w := newWorld(t, timeout(60), pvc("c", "class=dp storage=1Gi version=7 node=n9"))
	p := pod(naming("c"))
	if _, err := w.reserve(p, "n1"); err == nil {
		t.Error("the pod is placed although a node is selected for its claim")
	}
	w.set(pvc("c", "class=dp storage=1Gi version=8"))
	if _, err := w.reserve(p, "n1"); err != nil {
		t.Error(err)
	}
}
