package imagelocality

import (
	"fmt"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, New(), plugintest.Contract{Name: "ImageLocality", ScoreReads: model.Images})
}

// TestManyImages has more images than a byte has bits. Node i has all images before the
// i-th. Each node has a class and a score of its own, independent of the nodes scored
// before.
func TestManyImages(t *testing.T) {
	const images = 18
	names := make([]string, images)
	for i := range names {
		names[i] = fmt.Sprintf("image-%02d:1", i)
	}
	nodes := make([]*v1.Node, images+1)
	for i := range nodes {
		nodes[i] = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n" + strconv.Itoa(i)}}
		for _, name := range append([]string{"other:1"}, names[:i]...) {
			nodes[i].Status.Images = append(nodes[i].Status.Images, v1.ContainerImage{Names: []string{name}, SizeBytes: 1000 * mebibyte})
		}
	}
	s := plugintest.Cluster(nodes)
	scores, err := plugintest.NodeScores(New(), model.NewPod(pod(names...)))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{18, 0, 9, 8, 1, 17, 16, 7, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15} {
		// Image j is on the nodes above j: 18-j of 19.
		var sum int64
		for j := range i {
			sum += int64(float64(int64(1000*mebibyte)) * (float64(images-j) / float64(images+1)))
		}
		want := int32(0)
		if sum > leastBytes {
			want = int32(100 * (sum - leastBytes) / (images*1000*mebibyte - leastBytes))
		}
		if got := scoreOf(scores, s, "n"+strconv.Itoa(i)); got != want {
			t.Errorf("node with %d images: got %d, want %d", i, got, want)
		}
	}
	if got := scores.Score(s.Node(0)); got != 0 {
		t.Errorf("a node without the pod's images is of class %d", got)
	}
}
