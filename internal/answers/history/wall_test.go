package history

import (
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestTimesFitTheSystemsClock sets the system's clock forwards and back after decisions:
// answers have the times that the clock would have shown.
func TestTimesFitTheSystemsClock(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour, 0} {
		var s *scheduler
		kept, err := New(Config{Now: func() time.Time { return s.now }, Wall: func() time.Time { return s.now.Add(by) }})
		if err != nil {
			t.Fatal(err)
		}
		s = newScheduler(t, kept)
		s.changes.Set(build.Node("a", build.Allocatable("cpu=1 memory=1Gi pods=10")))
		s.changes.Set(build.Pod(build.Named("placed"), build.Container("cpu=1")))
		s.changes.Set(build.Pod(build.Named("waits"), build.Container("cpu=9")))
		began := s.now
		for s.loop.Once(s.now) {
			continue
		}
		for _, name := range []string{"placed", "waits"} {
			a := kept.Of(model.PodKey{Namespace: "default", Name: name}, s.loop.State(), s.loop.Queue(), func(string) bool { return false })
			if at := a.History.Kept[0].At; at.Sub(began) != by {
				t.Errorf("by %v: the attempt of %s was %v later than it was made", by, name, at.Sub(began))
			}
			if since := a.History.Since; since != nil && since.Sub(began) != by {
				t.Errorf("by %v: %s waits since %v later", by, name, since.Sub(began))
			}
		}
	}
}
