package volumebinding

import (
	"math"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/model/shape"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// scoreNeed asks for scores.
type scoreNeed struct {
	*demands
	ratings *shape.Ratings
}

func (n scoreNeed) AppendText(text []byte) []byte { return n.appendText(text) }

func (n scoreNeed) Compile() (plugin.NodeScores, error) {
	return &scores{compile(n.demands), n.ratings}, nil
}

type scores struct {
	finder
	ratings *shape.Ratings
}

// Score rates how much of the volumes that were found for the claims these request or, if there are none, how much of the capacities in which volumes
// are to be provisioned. It rates each class and returns the mean, 0 to 100, with halves rounded up; 0 where nothing is known.
//
// kube-scheduler's Score panics where a claim has its class by the beta annotation only, and where a capacity limits the size of volumes and does not
// say how much there is. Both count as nothing known here.
func (f *scores) Score(node state.Node) int32 {
	if _, tracked, known := f.judgeByClass(node); known && !tracked {
		return 0 // nothing is known of what is provisioned
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

// classUse is how much of the storage of a class is requested, in bytes.
type classUse struct {
	name                string
	requested, capacity int64
}

// addUse adds a request to that of its class. The capacity of volumes adds up, while several volumes are provisioned in one capacity.
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
