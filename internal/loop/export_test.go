package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// GoBy replaces the system's clock of the loop.
func (l *Loop) GoBy(system func() time.Time) { l.now, l.wall = steady(system), system }

// SetHints sets the Hints of a loop that was built without.
func (l *Loop) SetHints(by Hints) { l.hints = by }

// HoldFor reserves room for a group until a time, as if a search had found it.
func (l *Loop) HoldFor(group *model.PodGroup, room []plan.Nomination, until time.Time) {
	root := model.RootKey{Key: group.Key}
	l.state.HoldRoom(root, []model.GroupKey{group.Key}, room)
	l.holds.groups = append(l.holds.groups, roomHold{root, group.UID(), until})
}
