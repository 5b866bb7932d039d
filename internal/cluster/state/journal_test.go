package state

import (
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestJournalNamesWhatHasChanged changes a node and its pods in one way after the other.
// The journal has the node and exactly the changed aspects: only caches that read these
// must look again.
func TestJournalNamesWhatHasChanged(t *testing.T) {
	s := New()
	s.Apply([]model.Change{node("before")})
	set := func(options ...build.NodeOption) model.Change {
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node("a", options...))}
	}
	pod := func(options ...build.PodOption) model.Change {
		return model.Change{Kind: model.PodSet, Pod: model.NewPod(build.Pod(append(options, build.NodeName("a"))...))}
	}
	pending := func(nominated string) model.Change {
		return model.Change{Kind: model.PodSet, Pod: model.NewPod(build.Pod(build.Named("pending"), build.NominatedNodeName(nominated)))}
	}
	gone := model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: metav1.NamespaceDefault, Name: "p"}}
	started := func(p *v1.Pod) { p.Status.StartTime = &metav1.Time{Time: time.Unix(1, 0)} }
	port := func(p *v1.Pod) { p.Spec.Containers = []v1.Container{{Ports: []v1.ContainerPort{{HostPort: 80}}}} }
	disk, full := build.NodeLabels("disk=ssd"), build.Taints("full:NoSchedule")
	image := func(n *v1.Node) { n.Status.Images = []v1.ContainerImage{{Names: []string{"img"}, SizeBytes: 1}} }
	features := func(n *v1.Node) { n.Status.DeclaredFeatures = []string{"x"} }
	for _, step := range []struct {
		what   string
		change model.Change
		want   model.Aspect
	}{
		{"a node", set(), model.AllAspects},
		{"the same node", set(), 0},
		{"a label", set(disk), model.Labels},
		{"a taint", set(disk, full), model.Taints},
		{"it is cordoned", set(disk, full, build.Unschedulable), model.Taints},
		{"its resources", set(disk, full, build.Allocatable("cpu=4")), model.Taints | model.Allocatable},
		{"an image", set(disk, full, build.Allocatable("cpu=4"), image), model.Images},
		{"a feature", set(disk, full, build.Allocatable("cpu=4"), image, features), model.Features},
		{"a pod", pod(), model.Usage},
		{"the same pod", pod(), 0},
		{"it has started", pod(started), model.Starts},
		{"its labels", pod(started, build.Labels("app=web")), model.PodLabels},
		{"it is resized", pod(started, build.Labels("app=web"), build.Container("cpu=1")), model.Usage},
		{"it terminates", pod(started, build.Labels("app=web"), build.Container("cpu=1"), build.Terminating), model.PodLabels},
		{"it is gone", gone, model.Usage},
		{"a pod with a port", pod(port), model.Usage | model.Ports},
		{"that one is gone", gone, model.Usage | model.Ports},
		{"a pod that waits", pending(""), 0},
		{"it is nominated", pending("a"), model.Nominations},
		{"it is nominated no longer", pending(""), model.Nominations},
		{"nominated elsewhere", pending("unknown"), 0},
		{"the node is gone", nodeGone("a"), model.AllAspects},
	} {
		before := s.Version()
		s.Apply([]model.Change{step.change})
		entries, ok := s.Since(before)
		var aspects model.Aspect
		for _, e := range entries {
			aspects |= e.Aspects
		}
		if !ok || aspects != step.want || slices.ContainsFunc(entries, func(e Entry) bool { return e.Slot != 1 }) {
			t.Errorf("%s: the journal has %+v, want the aspects %b of slot 1", step.what, entries, step.want)
		}
		audited(t, s)
	}
}

// TestJournalIsBounded fills a journal: it keeps the last 32,768 entries and at most as
// many more. Readers that are further behind start over.
func TestJournalIsBounded(t *testing.T) {
	const kept = 32768
	var j journal
	for i := range uint64(5 * kept) {
		j.add(int32(i), model.Usage)
		if n := uint64(len(j.entries)); n > 2*kept || n < min(i+1, kept) || j.version() != i+1 {
			t.Fatalf("%d of %d entries are kept, and the version is %d", n, i+1, j.version())
		}
	}
	now := j.version()
	if last, _ := j.since(now - 10); len(last) != 10 || last[0].Slot != 5*kept-10 || last[9].Slot != 5*kept-1 {
		t.Errorf("the last entries are %+v", last)
	}
	for _, row := range []struct {
		version uint64
		entries int
		ok      bool
	}{{now, 0, true}, {now + 1, 0, false}, {now - 1, 1, true}, {now - kept, kept, true}, {j.base, len(j.entries), true}, {j.base - 1, 0, false}} {
		if entries, ok := j.since(row.version); len(entries) != row.entries || ok != row.ok {
			t.Errorf("since version %d of %d: %d entries, %t", row.version, now, len(entries), ok)
		}
	}
	for _, row := range []struct {
		entries int
		base    uint64
		sound   bool
	}{{2 * kept, 0, true}, {2*kept + 1, 0, false}, {kept, 0, true}, {kept, 1, false}, {kept + 1, 1, true}, {2 * kept, 1, true}} {
		v := audit.Of("state")
		full := journal{slices.Repeat([]Entry{{0, model.Usage}}, row.entries), row.base}
		if full.audit(v, "the journal", 1, true); (v.Err() == nil) != row.sound {
			t.Errorf("%d entries from version %d on: %v", row.entries, row.base, v.Err())
		}
	}
}
