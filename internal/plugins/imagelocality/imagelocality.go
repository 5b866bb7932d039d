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

// ScoreReads names the node's images.
func (*Plugin) ScoreReads() model.Aspect { return model.Images }

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
	s := &scorer{mostBytes: mostBytesPerImage * int64(len(names)), classes: map[string]int32{}, sets: []string{""}}
	for i, name := range names {
		if i > 0 && name == names[i-1] {
			s.images[len(s.images)-1].mentions++
		} else {
			s.images = append(s.images, image{name: name, mentions: 1})
		}
	}
	s.set, s.worth = make([]byte, (len(s.images)+7)/8), make([]int64, len(s.images))
	return s, nil
}

// Normalization returns AsIs: scores are in range.
func (*Plugin) Normalization() model.Normalization { return model.AsIs }

// image is one image name and how often the pod's spec has it.
type image struct {
	name     string
	mentions int64
}

// scorer is a compiled need. A node's class is the set of the pod's images that it has.
type scorer struct {
	images    []image // sorted by name
	mostBytes int64

	classes map[string]int32 // by set, as a bitmap of images; the empty set is class 0
	sets    []string         // by class
	set     []byte           // working memory

	scores  []int32 // by class
	worth   []int64 // by image: what it adds to the sum of a node that has it
	version uint64  // of the spread of images plus one, for which worth and scores are valid
}

// Score returns the class of the node.
func (s *scorer) Score(node state.Node) int32 {
	present := node.Model().Images
	if len(present) == 0 {
		return 0
	}
	clear(s.set)
	some := false
	for i := range s.images {
		if _, ok := present[s.images[i].name]; ok {
			s.set[i/8] |= 1 << (i % 8)
			some = true
		}
	}
	if !some {
		return 0
	}
	class, known := s.classes[string(s.set)]
	if !known {
		class = int32(len(s.sets))
		s.sets = append(s.sets, string(s.set))
		s.classes[s.sets[class]] = class
	}
	return class
}

// Classes returns the scores of nodes by the images that they have. A score is ⌊100·(c − lo)/(hi − lo)⌋ with c = clamp(sum, lo, hi), lo = 23 Mi,
// hi = 1000 Mi for each image of the pod. The sum is over those that the node has, each size scaled by the share of all nodes that have the image, so
// that a node does not attract all pods only because it was the first to pull their image.
func (s *scorer) Classes(v state.View) []int32 {
	if version := v.SpreadVersion() + 1; s.version != version {
		s.version, s.scores = version, s.scores[:0]
		for i := range s.images {
			size, nodes := v.ImageSpread(s.images[i].name)
			s.worth[i] = s.images[i].mentions * scaled(size, nodes, v.Nodes())
		}
	}
	for class := len(s.scores); class < len(s.sets); class++ {
		s.scores = append(s.scores, s.score(s.sets[class]))
	}
	return s.scores
}

func (s *scorer) score(set string) int32 {
	var sum int64
	for i := range len(set) * 8 {
		if set[i/8]&(1<<(i%8)) != 0 {
			sum += s.worth[i]
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
