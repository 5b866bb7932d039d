package simulate_test

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/offline/recording"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

// tape records the scheduler processes of one simulation. It is set by TestReplay alone,
// which runs beside no other test.
var tape *tapes

type tapes struct {
	files   []*bytes.Buffer
	writers []*recording.Writer
	err     error
}

// taped returns the configuration of a simulation with recorders, if these are set.
func taped(c simulate.Config) simulate.Config {
	if to := tape; to != nil {
		c.Recorder = func() loop.Recorder { return to.recorder(&c) }
	}
	return c
}

func (t *tapes) recorder(c *simulate.Config) loop.Recorder {
	var text bytes.Buffer
	if err := c.Scheduler.Write(&text); err != nil {
		t.err = err
		return nil
	}
	file := &bytes.Buffer{}
	w, err := recording.NewWriter(closer{file}, &recording.Header{
		Release: c.Scheduler.Release().String(), Config: text.Bytes(), Seed: c.Seed, MaxParked: cmp.Or(c.MaxParked, queue.DefaultMaxParked), GroupPatience: c.GroupPatience,
		GroupRetries: c.GroupRetries, WakeSlice: c.Slice,
	}, 1<<40, func(reason error) { t.err = reason })
	if err != nil {
		t.err = err
		return nil
	}
	t.files, t.writers = append(t.files, file), append(t.writers, w)
	return w
}

type closer struct{ io.Writer }

func (closer) Close() error { return nil }

// TestReplay records each process of a simulation with faults: failing writes, takeovers,
// slow answers, deleted objects. A replay of each recording makes the same decisions.
func TestReplay(t *testing.T) {
	gates := map[string]map[string]bool{
		"groups": {"GenericWorkload": true}, "trees": {"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true, "CompositePodGroup": true},
	}
	for name, run := range map[string]func(n uint64) error{
		"volumes": func(n uint64) error { _, err := runVolumeFaults(n); return err },
		"devices": func(n uint64) error { _, err := runDeviceFaults(n); return err },
		"groups":  func(n uint64) error { _, err := runGroupFaults(n, false); return err },
		"trees":   func(n uint64) error { _, err := runGroupFaults(n, true); return err },
	} {
		t.Run(name, func(t *testing.T) {
			decisions, placed, processes := 0, 0, 0
			seeds := uint64(build.UnlessRaced(3, 1))
			for n := uint64(1); n <= seeds; n++ {
				tape = &tapes{}
				to := tape
				err := run(n)
				tape = nil
				for _, w := range to.writers {
					if err := w.Close(); err != nil {
						t.Fatal(err)
					}
				}
				if err != nil || to.err != nil {
					t.Fatal(err, to.err)
				}
				var scheduler *config.Config
				for i, file := range to.files {
					result, err := replayed(file, gates[name], &scheduler)
					if err != nil || result.Difference != nil || result.Incomplete != "" {
						t.Fatalf("seed %d, process %d: %v, %s", n, i, err, told(result))
					}
					decisions, placed, processes = decisions+result.Decisions, placed+result.Placed, processes+1
				}
			}
			if !build.Raced && (decisions < 100 || placed < 50 || processes < 6) {
				t.Errorf("%d decisions, %d placements, %d processes", decisions, placed, processes)
			}
		})
	}
}

// replayed replays a recording. The processes of a simulation share the plugins, which
// remember what they have computed, and so do their replays.
func replayed(file *bytes.Buffer, gates map[string]bool, scheduler **config.Config) (*recording.Result, error) {
	r, err := recording.NewReader("tape", io.NopCloser(bytes.NewReader(file.Bytes())))
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	if r.Header.Gates = gates; *scheduler == nil {
		if *scheduler, err = r.Header.Scheduler(); err != nil {
			return nil, err
		}
	}
	p, err := recording.Replay(r, *scheduler)
	if err != nil {
		return nil, err
	}
	return &p.Result, p.Run(time.Time{}, func() error { return nil })
}

func told(r *recording.Result) string {
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("%d rounds, %d decisions equal, ended by %q", r.Rounds, r.Decisions, r.Incomplete)
	if d := r.Difference; d != nil {
		text += fmt.Sprintf("; at %v recorded %v, replayed %v", d.At, d.Recorded, d.Replayed)
	}
	return text
}
