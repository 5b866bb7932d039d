package imagelocality

import (
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// images maps names to sizes in Mi.
type images map[string]int64

// cluster returns a cluster of total nodes. The first having nodes have the images.
func cluster(total, having int, on images) *state.State {
	nodes := make([]*v1.Node, total)
	for i := range nodes {
		nodes[i] = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n" + strconv.Itoa(i)}}
		if i >= having {
			continue
		}
		for name, size := range on {
			nodes[i].Status.Images = append(nodes[i].Status.Images, v1.ContainerImage{Names: []string{name}, SizeBytes: size * mebibyte})
		}
	}
	return plugintest.Cluster(nodes)
}

// scoreOf returns the raw score of a node.
func scoreOf(scores plugin.NodeScores, s *state.State, name string) int32 {
	slot, _ := s.Slot(name)
	class := scores.Score(s.Node(slot))
	return scores.Classes.Classes(s.View())[class]
}

func pod(containers ...string) *v1.Pod {
	object := &v1.Pod{}
	for _, image := range containers {
		object.Spec.Containers = append(object.Spec.Containers, v1.Container{Image: image})
	}
	return object
}

func everywhere(init, container, volume string) *v1.Pod {
	object := pod(container)
	object.Spec.InitContainers = []v1.Container{{Image: init}}
	object.Spec.Volumes = []v1.Volume{{}, {VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: volume}}}}
	return object
}

func TestScore(t *testing.T) {
	const digest = "repo@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for _, row := range []struct {
		name          string
		pod           *v1.Pod
		total, having int
		on            images
		want          int32
	}{
		{"only node", pod("a"), 1, 1, images{"a:latest": 500}, 48},
		{"one of two", pod("a"), 2, 1, images{"a:latest": 500}, 23},
		{"absent", pod("a"), 2, 0, images{"a:latest": 500}, 0},
		{"both of two", pod("a"), 2, 2, images{"a:latest": 500}, 48},
		{"22 Mi", pod("a"), 1, 1, images{"a:latest": 22}, 0},
		{"23 Mi", pod("a"), 1, 1, images{"a:latest": 23}, 0},
		{"32 Mi", pod("a"), 1, 1, images{"a:latest": 32}, 0},
		{"33 Mi", pod("a"), 1, 1, images{"a:latest": 33}, 1},
		{"1000 Mi", pod("a"), 1, 1, images{"a:latest": 1000}, 100},
		{"2000 Mi", pod("a"), 1, 1, images{"a:latest": 2000}, 100},
		{"one of two images", pod("a", "b"), 1, 1, images{"a:latest": 600}, 29},
		{"the same image twice", pod("a", "a"), 1, 1, images{"a:latest": 600}, 59},
		{"rare", pod("a"), 5000, 10, images{"a:latest": 1000}, 0},
		{"init, container and volume", everywhere("a", "b", "c"), 3, 1, images{"a:latest": 300, "b:latest": 300, "c:latest": 300}, 9},
		{"port in the name", pod("localhost:5000/app"), 1, 1, images{"localhost:5000/app:latest": 1000}, 100},
		{"names are not canonical", pod("app"), 1, 1, images{"docker.io/library/app:latest": 1000}, 0},
		{"small and large", pod("a", "b"), 2, 1, images{"a:latest": 40, "b:latest": 300}, 7},
		{"tag", pod("a:1"), 1, 1, images{"a:latest": 1000}, 0},
		{"digest", pod(digest), 1, 1, images{digest: 1000}, 100},
	} {
		scorer, err := plugintest.NodeScores(New(), model.NewPod(row.pod))
		if err != nil {
			t.Fatal(err)
		}
		if got := scoreOf(scorer, cluster(row.total, row.having, row.on), "n0"); got != row.want {
			t.Errorf("%s: got %d, want %d", row.name, got, row.want)
		}
	}
	if New().Normalization() != model.AsIs {
		t.Error("scores are normalised")
	}
}

// Only the size from the node that first reported an image counts.
func TestFirstReportedSizeCounts(t *testing.T) {
	node := func(name string, size int64) *v1.Node {
		return &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     v1.NodeStatus{Images: []v1.ContainerImage{{Names: []string{"other", "a:latest"}, SizeBytes: size * mebibyte}}},
		}
	}
	s := plugintest.Cluster([]*v1.Node{node("n1", 500), node("n2", 900)})
	scorer, _ := plugintest.NodeScores(New(), model.NewPod(pod("a")))
	for _, name := range []string{"n1", "n2"} {
		if got := scoreOf(scorer, s, name); got != 48 {
			t.Errorf("%s: got %d, want 48", name, got)
		}
	}
}

// TestSpreadOfImages changes the number of nodes, and the number of nodes with an image.
// An unchanged node keeps its class, and its score follows.
func TestSpreadOfImages(t *testing.T) {
	s := cluster(2, 1, images{"a:latest": 500, "b:latest": 300})
	scorer, _ := plugintest.NodeScores(New(), model.NewPod(pod("a")))
	class := scorer.Score(s.Node(0))
	node := func(i int, names ...string) model.Change {
		object := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n" + strconv.Itoa(i)}}
		for _, name := range names {
			object.Status.Images = append(object.Status.Images, v1.ContainerImage{Names: []string{name}, SizeBytes: 900 * mebibyte})
		}
		return model.Change{Kind: model.NodeSet, Node: model.NewNode(object)}
	}
	for _, step := range []struct {
		change model.Change
		want   int32
	}{
		{node(1), 23},
		{node(1, "a:latest"), 48},
		{node(1, "a:latest", "c:latest"), 48},
		{node(2), 31},
		{node(2, "b:latest"), 31},
		{node(1), 14},
		{model.Change{Kind: model.NodeGone, Name: "n2"}, 23},
		{model.Change{Kind: model.NodeGone, Name: "n1"}, 48},
		{node(0, "b:latest"), 0},
		{node(0, "a:latest"), 89}, // reported anew
	} {
		s.Apply([]model.Change{step.change})
		if got := scoreOf(scorer, s, "n0"); got != step.want {
			t.Errorf("after %+v: got %d, want %d", step.change, got, step.want)
		}
	}
	if again := scorer.Score(s.Node(0)); again != class {
		t.Errorf("the class went from %d to %d", class, again)
	}
}

func TestNeed(t *testing.T) {
	for _, row := range []struct {
		name       string
		one, other *v1.Pod
		equal      bool
	}{
		{"order", pod("a", "b"), pod("b", "a"), true},
		{"default tag", pod("a"), pod("a:latest"), true},
		{"place", everywhere("a", "b", "c"), pod("c", "b", "a"), true},
		{"repetition", pod("a", "a"), pod("a"), false},
		{"tag", pod("a:1"), pod("a"), false},
		{"split names", pod(`a"`, "b"), pod("a", `"b`), false},
	} {
		one, other := plugintest.ScoreNeed(New(), model.NewPod(row.one)), plugintest.ScoreNeed(New(), model.NewPod(row.other))
		if got := one == other; got != row.equal {
			t.Errorf("%s: equal = %t, want %t: %s and %s", row.name, got, row.equal, one, other)
		}
	}
	if !plugintest.ScoreNeed(New(), model.NewPod(pod())).IsZero() {
		t.Error("a pod without images has a need")
	}
}

func TestScoreAllocatesNothing(t *testing.T) {
	scorer, _ := plugintest.NodeScores(New(), model.NewPod(pod("a", "b", "c")))
	n := cluster(2, 1, images{"a:latest": 40, "b:latest": 300}).Node(0)
	scorer.Score(n) // assigns a number to the class
	if allocs := testing.AllocsPerRun(100, func() { scorer.Score(n) }); allocs != 0 {
		t.Errorf("Score allocates %v times", allocs)
	}
}

func BenchmarkScore(b *testing.B) {
	const image = "registry.example.com/team/service/component:v1.2.3"
	scorer, _ := plugintest.NodeScores(New(), model.NewPod(pod(image)))
	many := images{}
	for i := range 50 {
		many["registry.example.com/team/service/other:v"+strconv.Itoa(i)] = 100
	}
	absent := cluster(1, 1, many).Node(0)
	many[image] = 500
	present := cluster(1, 1, many).Node(0)
	for name, n := range map[string]state.Node{"absent": absent, "present": present} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				scorer.Score(n)
			}
		})
	}
}
