package volumebinding

import (
	"math"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/model/shape"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// scoreNeed is the need for scores.
type scoreNeed struct {
	*demands
	ratings *shape.Ratings
}

func (n scoreNeed) AppendText(text []byte) []byte { return n.appendText(text) }

func (n scoreNeed) Compile() (plugin.NodeScores, error) {
	return plugin.NodeScores{RawScores: &scores{compile(n.demands), n.ratings}}, nil
}

type scores struct {
	finder
	ratings *shape.Ratings
}

// Score rates the requested share of the volumes found for the claims. If none were
// found, it rates the requested share of the capacities to provision from. It rates each
// class and returns the mean, 0 to 100, with halves rounded up. Without data the score is
// 0.
//
// kube-scheduler's Score panics if a claim has its class only from the beta annotation,
// or if a capacity limits the volume size but does not report its amount. Here both count
// as no data.
func (f *scores) Score(node state.Node) int32 {
	if _, tracked, known := f.judgeByClass(node); known && !tracked {
		return 0 // no data on provisioned volumes
	}
	var space space
	found, unfit, failed := f.find(node, space.empty())
	if unfit != 0 || failed != 0 {
		return 0
	}
	var uses [few]classUse
	classes := uses[:0]
	for i := range found.static {
		m := &found.static[i]
		classes = addUse(classes, m.volume.Object.Spec.StorageClassName, m.claim.Request, m.volume.Capacity, true)
	}
	if len(found.static) == 0 {
		for i := range found.provisioned {
			p := &found.provisioned[i]
			if name := p.claim.Object.Spec.StorageClassName; p.capacity != nil && p.capacity.HasCapacity && name != nil {
				classes = addUse(classes, *name, p.claim.Request, p.capacity.Capacity, false)
			}
		}
	}
	if len(classes) == 0 {
		return 0
	}
	var sum int64
	for i := range classes {
		c := &classes[i]
		if c.capacity == 0 || c.requested > c.capacity {
			sum += f.ratings.At(100)
		} else {
			sum += f.ratings.At(amount.Percent(c.requested, c.capacity))
		}
	}
	return int32(math.Round(float64(sum) / float64(len(classes))))
}

// classUse is the requested share of a class's storage, in bytes.
type classUse struct {
	name                string
	requested, capacity int64
}

// addUse adds a request to its class. The capacities of volumes add up. Provisioned
// volumes share one capacity, which counts once.
func addUse(classes []classUse, name string, requested, capacity int64, adds bool) []classUse {
	for i := range classes {
		if c := &classes[i]; c.name == name {
			c.requested = amount.Add(c.requested, requested)
			if adds {
				c.capacity = amount.Add(c.capacity, capacity)
			} else {
				c.capacity = capacity
			}
			return classes
		}
	}
	return append(classes, classUse{name, requested, capacity})
}
