package loop

import (
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// GoBy replaces the system's clock of the loop.
func (l *Loop) GoBy(system func() time.Time) { l.now, l.wall = steady(system), system }

// Advise sets the adviser of a loop that was built without an adviser.
func (l *Loop) Advise(by Adviser) { l.adviser = by }

// KeepFor reserves room for a group until a time, as if a search had found it.
func (l *Loop) KeepFor(group *model.PodGroup, room []plan.Nomination, until time.Time) {
	root := model.RootKey{Key: group.Key}
	l.state.Keep(root, []model.GroupKey{group.Key}, room)
	l.kept.groups = append(l.kept.groups, keptFor{root, group.UID(), until})
}
