// Package imagelocality prefers nodes that already have the pod's images.
//
// It takes the images in a pod's spec, the images on a node and how many nodes have each.
// It returns a score that needs no normalization. It owns nothing. It never resolves an
// image name: names are compared as text, the pod's names with a default tag.
package imagelocality

import (
	"encoding/binary"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "ImageLocality"

const (
	mebibyte = 1 << 20
	// leastBytes is the sum below which images score 0: they are pulled too fast to
	// matter.
	leastBytes int64 = 23 * mebibyte
	// maxBytesPerImage, times the pod's images, is the sum that already scores 100.
	maxBytesPerImage int64 = 1000 * mebibyte
	maxScore         int64 = 100
)

// Plugin scores nodes by the images they have.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "ImageLocality".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:  Name,
		Score: &plugin.Score{Reads: p.ScoreReads(), Normalization: p.Normalization(), Need: p.ScoreNeed},
	})
}

// ScoreNeed returns the pod's images with repetitions, because each occurrence counts. It
// returns nil for a pod without images.
func (*Plugin) ScoreNeed(pod *model.Pod) plugin.ScoreNeed {
	names := imagesOf(&pod.Object.Spec)
	if len(names) == 0 {
		return nil
	}
	return mentioned(names)
}

// ScoreReads returns the node's images.
func (*Plugin) ScoreReads() model.Aspect { return model.Images }

// mentioned holds the image names in a pod's spec, sorted, with repetitions.
type mentioned []string

func (names mentioned) AppendText(text []byte) []byte {
	for _, name := range names {
		text = model.AppendQuote(text, name)
	}
	return text
}

// Prepare has nothing to do: the names are sorted.
func (mentioned) Prepare() {}

// Compile counts the images. It never fails.
func (names mentioned) Compile() (plugin.NodeScores, error) {
	s := &scorer{mostBytes: maxBytesPerImage * int64(len(names)), classes: map[string]int32{}, sets: [][]int32{nil}}
	for i, name := range names {
		if i > 0 && name == names[i-1] {
			s.images[len(s.images)-1].mentions++
		} else {
			s.images = append(s.images, image{name: name, mentions: 1})
		}
	}
	if len(s.images) > fewImages {
		s.at = make(map[string]int32, len(s.images))
		for i := range s.images {
			s.at[s.images[i].name] = int32(i)
		}
	}
	s.worth = make([]int64, len(s.images))
	return plugin.NodeScores{RawScores: s, Classes: s}, nil
}

// fewImages is the number of images up to which each is looked up on the node. For a pod
// with more, the node's images are looked up in the pod's: a kubelet reports at most 50.
const fewImages = 32

// Normalization returns AsIs: scores are in range.
func (*Plugin) Normalization() model.Normalization { return model.AsIs }

// image is an image name and its number of occurrences in the pod's spec.
type image struct {
	name     string
	mentions int64
}

// scorer is a compiled need. A node's class is the set of the pod's images on it.
type scorer struct {
	images    []image          // sorted by name
	at        map[string]int32 // position in images, by name; nil for few images
	mostBytes int64

	classes map[string]int32 // class by set, as text; the empty set is class 0
	sets    [][]int32        // by class: positions in images, ascending
	set     []int32          // scratch
	text    []byte           // scratch

	scores  []int32 // by class
	worth   []int64 // by image: its contribution on a node that has it
	version uint64  // SpreadVersion of worth and scores, plus one
}

// Score returns the class of the node.
func (s *scorer) Score(node state.Node) int32 {
	present := node.Model().Images
	if len(present) == 0 {
		return 0
	}
	s.set = s.appendPresent(s.set[:0], present)
	if len(s.set) == 0 {
		return 0
	}
	s.text = s.text[:0]
	for _, at := range s.set {
		s.text = binary.AppendUvarint(s.text, uint64(at))
	}
	class, known := s.classes[string(s.text)]
	if !known {
		class = int32(len(s.sets))
		s.sets = append(s.sets, slices.Clone(s.set))
		s.classes[string(s.text)] = class
	}
	return class
}

// appendPresent appends the positions of the images that are present, ascending.
func (s *scorer) appendPresent(to []int32, present map[string]int64) []int32 {
	if s.at == nil || len(s.images) <= len(present) {
		for i := range s.images {
			if _, ok := present[s.images[i].name]; ok {
				to = append(to, int32(i))
			}
		}
		return to
	}
	for name := range present {
		if at, ok := s.at[name]; ok {
			to = append(to, at)
		}
	}
	slices.Sort(to)
	return to
}

// Classes returns the score of each class. A score is ⌊100·(c − lo)/(hi − lo)⌋ with c =
// clamp(sum, lo, hi), lo = 23 Mi and hi = 1000 Mi for each image of the pod.
//
// The sum is over the images of the pod that the node has. Each size is scaled by the
// share of all nodes that have the image. Otherwise the first node to pull an image would
// attract all pods that use it.
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

func (s *scorer) score(set []int32) int32 {
	var sum int64
	for _, at := range set {
		sum += s.worth[at]
	}
	if sum <= leastBytes {
		return 0
	}
	return int32(maxScore * (min(sum, s.mostBytes) - leastBytes) / (s.mostBytes - leastBytes))
}

// scaled evaluates kube-scheduler's formula in the same order and types, so that both
// truncate alike.
func scaled(sizeBytes int64, nodes, clusterNodes int) int64 {
	return int64(float64(sizeBytes) * (float64(nodes) / float64(clusterNodes)))
}

// imagesOf returns the images of init containers, containers and image volumes, sorted,
// with repetitions.
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

// tagged adds the default tag to a name that has neither tag nor digest. A colon before
// the last slash belongs to a port.
func tagged(name string) string {
	if strings.LastIndexByte(name, ':') <= strings.LastIndexByte(name, '/') {
		return name + ":latest"
	}
	return name
}
