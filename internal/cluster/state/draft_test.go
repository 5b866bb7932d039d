package state_test

import (
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

const zone = "zone"

// draftPod is a pod of the app web with anti-affinity to the app by zone.
func draftPod(name string, changes ...func(*v1.Pod)) *model.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}}}
	p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
		{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, TopologyKey: zone},
	}}}
	for _, change := range changes {
		change(p)
	}
	pod := model.NewPod(p)
	pod.Occupies.CPUMilli, pod.Ports = 100, []model.HostPort{{Port: 80, Protocol: v1.ProtocolTCP, IP: model.AnyIP}}
	return pod
}

func on(node string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.NodeName = node } }
func terminating(p *v1.Pod)        { p.DeletionTimestamp = &metav1.Time{} }

// webPods are the pods of the app web that are not terminating, by zone.
func webPods(t *testing.T, v state.View) *state.Tally {
	t.Helper()
	term, err := model.NewTerm("ns", &v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, TopologyKey: zone})
	if err != nil {
		t.Fatal(err)
	}
	tally := v.Tally(state.PodSet{Text: "web", Terms: []*model.Term{term}, Staying: true}, state.TopologyKey{Label: zone}, state.NodeSet{})
	v.KeepLeast(tally)
	return tally
}

func twoZones(pods ...*model.Pod) *state.State {
	s := state.New()
	var changes []model.Change
	for name, in := range map[string]string{"a": "1", "b": "2"} {
		object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{zone: in}}}
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(object)})
	}
	for _, pod := range pods {
		changes = append(changes, model.Change{Kind: model.PodSet, Pod: pod})
	}
	s.Apply(changes)
	return s
}

// TestDraft checks the counts and holds of a draft, and that the state stays unchanged.
func TestDraft(t *testing.T) {
	s := twoZones(draftPod("there", on("a")))
	slot, _ := s.Slot("a")
	tally, version := webPods(t, s.View()), s.Version()
	d := s.View().Draft()
	volume := model.Ref{Name: "volume"}
	d.Add(draftPod("new"), slot, plan.Hold{Plugin: "Volumes", Object: volume})
	look := func(v state.View) string {
		n := v.Node(slot)
		differences := v.Differences(tally, nil)
		carriers := 0
		v.TermDifferences(draftPod("asks"), func(_ state.Matching, differences []state.Difference) { carriers += len(differences) })
		expanded := v.ExpandedWith(tally, differences)
		if first := tally.Domains()[slot]; int64(expanded[first]) != tally.TotalWith(differences) {
			t.Errorf("the zone of the node counts %d pods of %d", expanded[first], tally.TotalWith(differences))
		}
		return fmt.Sprint(n.Used().CPUMilli, n.PodCount(), n.PortInUse(draftPod("asks").Ports[:1]), tally.TotalWith(differences),
			tally.Least(differences), carriers, len(v.Holders(volume)))
	}
	if got := look(d.View()); got != "200 2 true 2 0 1 1" {
		t.Errorf("with a pod added: %s", got)
	}
	fork := d.View().Draft()
	d.Remove(model.PodKey{Namespace: "ns", Name: "new"})
	d.Remove(model.PodKey{Namespace: "ns", Name: "there"})
	if got := look(d.View()); got != "0 0 false 0 0 1 0" {
		t.Errorf("with both pods removed: %s", got)
	}
	if got := look(fork.View()); got != "200 2 true 2 0 1 1" {
		t.Errorf("a draft of the draft, after the draft changed: %s", got)
	}
	fork.Remove(model.PodKey{Namespace: "ns", Name: "new"})
	if got := look(fork.View()); got != "100 1 true 1 0 1 0" {
		t.Errorf("a draft of the draft, without the pod that the draft added: %s", got)
	}
	if got := look(s.View()); got != "100 1 true 1 0 0 0" || s.Version() != version || s.Pods() != 1 {
		t.Errorf("the state: %s", got)
	}
	if err := s.Audit(); err != nil {
		t.Error(err)
	}
}

// TestDryRunCountsTerminatingPods removes a terminating pod. A what-if does not count the
// pod, so removing it changes no count. A dry run subtracts it although it was never
// counted, as kube-scheduler's RemovePod does.
func TestDryRunCountsTerminatingPods(t *testing.T) {
	s := twoZones(draftPod("gone", on("a"), terminating), draftPod("stays", on("b")))
	tally := webPods(t, s.View())
	least := func(d *state.Draft) string {
		d.Remove(model.PodKey{Namespace: "ns", Name: "gone"})
		differences := d.View().Differences(tally, nil)
		return fmt.Sprint(tally.TotalWith(differences), tally.Least(differences))
	}
	if got := least(s.View().Draft()); got != "1 0" {
		t.Errorf("what-if: %s", got)
	}
	if got := least(s.View().DryRun(new(state.Draft))); got != "0 -1" {
		t.Errorf("dry run: %s", got)
	}
}

// TestDraftsAreReadTogether reads several drafts at a time, and one of them from several
// goroutines, for the race detector.
func TestDraftsAreReadTogether(t *testing.T) {
	s := twoZones(draftPod("there", on("a")))
	tally := webPods(t, s.View())
	shared := s.View().Draft()
	slot, _ := s.Slot("b")
	shared.Add(draftPod("shared"), slot)
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			own := s.View().DryRun(new(state.Draft))
			own.Add(draftPod(fmt.Sprint("own-", i)), slot)
			for _, v := range []state.View{shared.View(), own.View(), shared.View().Draft().View()} {
				differences := v.Differences(tally, nil)
				v.TermDifferences(draftPod("asks"), func(t state.Matching, _ []state.Difference) { _ = t.Domains() })
				if n := v.Node(slot); n.PodCount() != 1 || tally.TotalWith(differences) != 2 || tally.Least(differences) != 1 {
					t.Errorf("reader %d: %d pods on the node, differences %v", i, n.PodCount(), differences)
				}
			}
		})
	}
	readers.Wait()
}
