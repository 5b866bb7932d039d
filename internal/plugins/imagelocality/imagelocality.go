// Package imagelocality prefers nodes that already have the pod's images.
//
// It takes the images in a pod's spec, the images on a node and how many nodes have each; it gives a raw score that is in range already. It owns
// nothing. It never resolves an image name: names are compared as text, the pod's with a default tag.
package imagelocality

import (
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/state"
)

// Name is the plugin's name in the configuration.
const Name = "ImageLocality"

const (
	mebibyte = 1 << 20
	// Images of less than this in sum are pulled so fast that they do not matter.
	leastBytes int64 = 23 * mebibyte
	// More than this, for each image of the pod, does not raise the score further.
	mostBytesPerImage int64 = 1000 * mebibyte
	maxScore          int64 = 100
)

// Plugin scores nodes by the images they have.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "ImageLocality".
func (*Plugin) Name() string { return Name }

// ScoreNeed is the images, with repetitions, because each occurrence counts. It is nil for a pod without images.
func (*Plugin) ScoreNeed(pod *model.Pod) plugin.ScoreNeed {
	names := imagesOf(&pod.Object.Spec)
	if len(names) == 0 {
		return nil
	}
	return mentioned(names)
}

// ScoreReads names the node's images and their spread over all nodes.
func (*Plugin) ScoreReads() model.Aspect { return model.Images | model.Spread }

// mentioned are the image names in a pod's spec, sorted, with repetitions.
type mentioned []string

func (names mentioned) AppendText(text []byte) []byte {
	for _, name := range names {
		text = strconv.AppendQuote(text, name)
	}
	return text
}

// Compile counts the images. It never fails.
func (names mentioned) Compile() (plugin.NodeScores, error) {
	s := &scorer{mostBytes: mostBytesPerImage * int64(len(names))}
	for i, name := range names {
		if i > 0 && name == names[i-1] {
			s.images[len(s.images)-1].mentions++
		} else {
			s.images = append(s.images, image{name: name, mentions: 1})
		}
	}
	return s, nil
}

// Normalization returns AsIs: scores are in range.
func (*Plugin) Normalization() model.Normalization { return model.AsIs }

// image is one image name and how often the pod's spec has it.
type image struct {
	name     string
	mentions int64
}

type scorer struct {
	images    []image // sorted by name
	mostBytes int64
}

// Score is ⌊100·(c − lo)/(hi − lo)⌋ with c = clamp(sum, lo, hi), lo = 23 Mi, hi = 1000 Mi for each image of the pod. The sum is over those that
// the node has, each size scaled by the share of all nodes that have the image, so that a node does not attract all pods only because it was the
// first to pull their image.
func (s *scorer) Score(node state.Node) int32 {
	present := node.Model().Images
	if len(present) == 0 {
		return 0
	}
	var sum int64
	for i := range s.images {
		image := &s.images[i]
		if _, ok := present[image.name]; ok {
			size, nodes := node.ImageSpread(image.name)
			sum += image.mentions * scaled(size, nodes, node.ClusterNodes())
		}
	}
	if sum <= leastBytes {
		return 0
	}
	return int32(maxScore * (min(sum, s.mostBytes) - leastBytes) / (s.mostBytes - leastBytes))
}

// scaled computes kube-scheduler's formula in the same order and types, so that both truncate alike.
func scaled(sizeBytes int64, nodes, clusterNodes int) int64 {
	return int64(float64(sizeBytes) * (float64(nodes) / float64(clusterNodes)))
}

// imagesOf returns the images of init containers, containers and image volumes, sorted, with repetitions.
func imagesOf(spec *v1.PodSpec) []string {
	names := make([]string, 0, len(spec.InitContainers)+len(spec.Containers)+1)
	for i := range spec.InitContainers {
		names = append(names, tagged(spec.InitContainers[i].Image))
	}
	for i := range spec.Containers {
		names = append(names, tagged(spec.Containers[i].Image))
	}
	for i := range spec.Volumes {
		if volume := spec.Volumes[i].Image; volume != nil {
			names = append(names, tagged(volume.Reference))
		}
	}
	slices.Sort(names)
	return names
}

// tagged adds the default tag to a name that has neither tag nor digest. A colon before the last slash is part of a port.
func tagged(name string) string {
	if strings.LastIndexByte(name, ':') <= strings.LastIndexByte(name, '/') {
		return name + ":latest"
	}
	return name
}
