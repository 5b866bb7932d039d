package simulate

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
)

// Faults say what goes wrong by chance, and how often. The zero value is a perfect world without delays.
type Faults struct {
	// WatchDelayMax and BindDelayMax bound how late watch events are shown and bindings carried out and answered. Versions of one object
	// are shown in order; different objects overtake each other.
	WatchDelayMax, BindDelayMax time.Duration
	// In so many of 100 cases a watch event is shown twice, and a binding fails in each of these ways.
	DuplicatePercent, ConflictPercent, UnavailablePercent, LostPercent int
}

// BindFault is a way in which a binding fails.
type BindFault uint8

// The ways in which a binding fails.
const (
	NoFault BindFault = iota
	// Conflict: the API server refuses; nothing is stored.
	Conflict
	// Unavailable: the API server is unwell; nothing is stored, and trying again soon is worth it.
	Unavailable
	// Lost: the binding is stored, but the answer never arrives.
	Lost
)

var bindFaultNames = [...]string{"none", "conflict", "unavailable", "lost"}

// String returns the fault's name.
func (f BindFault) String() string { return bindFaultNames[f] }

// BindFaultNamed returns the fault of a name that String gives.
func BindFaultNamed(name string) (BindFault, error) {
	for f, known := range bindFaultNames {
		if name == known && BindFault(f) != NoFault {
			return BindFault(f), nil
		}
	}
	return NoFault, fmt.Errorf("unknown bind fault %q; want conflict, unavailable or lost", name)
}

// bindPlan is what was ordered for the next bindings of one pod.
type bindPlan struct {
	fault BindFault
	times int
	delay time.Duration
}

// chaos draws what goes wrong. Draws happen in the order of what happens, so a seed repeats them.
type chaos struct {
	Faults
	random *rand.Rand
	plans  map[model.PodKey]*bindPlan
}

func newChaos(faults Faults, seed uint64) chaos {
	return chaos{Faults: faults, random: rand.New(rand.NewPCG(seed, 1)), plans: map[model.PodKey]*bindPlan{}}
}

func (c *chaos) plan(key model.PodKey) *bindPlan {
	if c.plans[key] == nil {
		c.plans[key] = &bindPlan{}
	}
	return c.plans[key]
}

func (c *chaos) chance(percent int) bool { return percent > 0 && c.random.IntN(100) < percent }

func (c *chaos) upTo(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(c.random.Int64N(int64(limit) + 1))
}

// bindDelay is how long a binding takes on its way.
func (c *chaos) bindDelay(key model.PodKey) time.Duration {
	if plan := c.plans[key]; plan != nil && plan.delay > 0 {
		return plan.delay
	}
	return c.upTo(c.BindDelayMax)
}

// bindFault is how this try to bind the pod fails.
func (c *chaos) bindFault(key model.PodKey) BindFault {
	if plan := c.plans[key]; plan != nil && plan.times != 0 {
		if plan.times > 0 {
			plan.times--
		}
		return plan.fault
	}
	switch {
	case c.chance(c.ConflictPercent):
		return Conflict
	case c.chance(c.UnavailablePercent):
		return Unavailable
	case c.chance(c.LostPercent):
		return Lost
	}
	return NoFault
}
