package queued

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/answers/history"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/queue"
)

// Queue is the part of the queue that a snapshot reads, between two rounds of the loop.
type Queue interface {
	Brief(now time.Time, key model.PodKey, uid types.UID) (queue.Brief, bool)
	Events(profile, plugin string) []string
}

// History has the last attempts of pods.
type History interface {
	Last(key model.PodKey, uid types.UID) (history.Last, bool)
}

// Config is the configuration of a Lister. All fields but History and Wall are required.
type Config struct {
	// Ask calls a function between two rounds of the loop.
	Ask func(ctx context.Context, look func()) error
	// Queue and History belong to the loop's goroutine. History may be nil.
	Queue   Queue
	History History
	// Pods returns the pods of the informer's cache, which must not be changed.
	Pods func() []*v1.Pod
	// Profiles are the scheduler names of the profiles.
	Profiles []string
	// Now is the steady clock of the loop, Wall the system's clock for the times in
	// answers; nil means Now.
	Now, Wall func() time.Time
}

// sliceOf is the number of pods that one call on the loop's goroutine reads, at about
// half a microsecond each.
const sliceOf = 500

// freshFor is how long a snapshot answers further questions.
const freshFor = time.Second

// Lister answers questions about waiting pods. Its methods are safe for concurrent use.
type Lister struct {
	config Config
	// turn is held by the question that reads or replaces last.
	turn   chan struct{}
	last   *snapshot
	asking atomic.Int64 // questions that hold or await the turn
}

// New returns a Lister.
func New(config Config) *Lister {
	if config.Wall == nil {
		config.Wall = config.Now
	}
	return &Lister{config: config, turn: make(chan struct{}, 1)}
}

// snapshot has the waiting pods at one time. Nothing changes it.
type snapshot struct {
	at       time.Time // of the steady clock
	wall     time.Time
	pods     []waiting // in the order of Answer.Groups
	events   map[registered][]string
	unsorted bool
}

// waiting is one pod of a snapshot.
type waiting struct {
	pod      *v1.Pod
	brief    queue.Brief
	last     history.Last
	recorded string // the message of the condition, in a snapshot of files
	position int
}

// registered names a plugin of a profile.
type registered struct{ profile, plugin string }

// snapshot returns a snapshot that is at most freshFor old. Questions that arrive while
// one is made wait for it, so many questions cost no more than one. The last question
// that waited drops it.
func (l *Lister) snapshot(ctx context.Context) (*snapshot, error) {
	l.asking.Add(1)
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		if l.asking.Add(-1) == 0 { // nobody else drops the snapshot
			select {
			case l.turn <- struct{}{}:
				l.last = nil
				<-l.turn
			default:
			}
		}
		return nil, context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	if l.last == nil || l.config.Now().Sub(l.last.at) >= freshFor {
		l.last = nil // free the memory first
		var err error
		if l.last, err = l.take(ctx); err != nil {
			l.asking.Add(-1)
			return nil, err
		}
	}
	s := l.last
	if l.asking.Add(-1) == 0 {
		l.last = nil
	}
	return s, nil
}

// take reads the queue in slices.
func (l *Lister) take(ctx context.Context) (*snapshot, error) {
	c := &l.config
	s := &snapshot{events: map[registered][]string{}}
	for slice := range slices.Chunk(l.unbound(), sliceOf) {
		if err := c.Ask(ctx, func() {
			now := c.Now()
			for _, pod := range slice {
				key := model.PodKey{Namespace: pod.Namespace, Name: pod.Name}
				w := waiting{pod: pod}
				var ok bool
				if w.brief, ok = c.Queue.Brief(now, key, pod.UID); !ok {
					continue
				}
				if c.History != nil {
					w.last, _ = c.History.Last(key, pod.UID)
				}
				s.pods = append(s.pods, w)
				s.notePlugins(&w, c.Queue)
			}
		}); err != nil {
			return nil, err
		}
	}
	s.at, s.wall = c.Now(), c.Wall()
	s.order()
	return s, nil
}

// notePlugins notes the events that the plugins of a parked or gated pod registered.
func (s *snapshot) notePlugins(w *waiting, q Queue) {
	if !w.brief.WaitsForEvent {
		return
	}
	for _, plugin := range w.brief.Rejectors {
		key := registered{w.pod.Spec.SchedulerName, plugin}
		if _, known := s.events[key]; !known {
			s.events[key] = q.Events(key.profile, plugin)
		}
	}
}

// unbound returns the pods of the scheduler's profiles without a node, by namespace and
// name.
func (l *Lister) unbound() []*v1.Pod {
	pods := slices.DeleteFunc(l.config.Pods(), func(p *v1.Pod) bool {
		return p.Spec.NodeName != "" || !slices.Contains(l.config.Profiles, p.Spec.SchedulerName)
	})
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

// order sorts the pods, and numbers the active ones.
func (s *snapshot) order() {
	slices.SortStableFunc(s.pods, func(a, b waiting) int {
		x, y := a.rank(), b.rank()
		switch {
		case x != y:
			return cmp.Compare(x, y)
		case a.brief.Turn != nil && b.brief.Turn != nil:
			return a.brief.Turn.Compare(b.brief.Turn)
		}
		return cmp.Or(a.next().Compare(b.next()), a.pod.CreationTimestamp.Compare(b.pod.CreationTimestamp.Time))
	})
	var before *waiting
	active := 0
	for i := range s.pods {
		w := &s.pods[i]
		if w.brief.Turn == nil {
			s.unsorted = s.unsorted || w.brief.Place == placeActive
			continue
		}
		active++
		if w.position = active; before != nil && before.brief.Turn.Compare(w.brief.Turn) == 0 {
			w.position = before.position // of the same group
		}
		before = w
	}
}

// The places that decide about the order; see package queue.
const (
	placeActive, placeDeciding = "active", "deciding"
	placeBackingOff            = "backing off" // also the beginning of the place after an error
)

// next returns the end of the backoff of a pod that is retried then; zero for others.
func (w *waiting) next() time.Time {
	if !strings.HasPrefix(w.brief.Place, placeBackingOff) {
		return time.Time{}
	}
	return w.brief.BackoffEnd
}

// rank sorts pods by the kind of their next attempt.
func (w *waiting) rank() int {
	switch {
	case w.brief.Place == placeDeciding:
		return 0
	case w.brief.Turn != nil:
		return 1
	case w.brief.Place == placeActive:
		return 2
	case strings.HasPrefix(w.brief.Place, placeBackingOff):
		return 3
	}
	return 4
}
