package framework

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// Bounds of the memory of calls that were given up.
const (
	// hungMax is for how many pods a plugin may hang. Beyond that it is not called until a call
	// returns: each call that hangs stops the loop for the deadline, and each parked pod may make one.
	hungMax = 3
	// asideFirst and asideMax bound how long a plugin is not called for a pod that made it hang.
	// The time doubles with each call that hangs.
	asideFirst, asideMax = time.Minute, time.Hour
	// asidePodsMax bounds the pods that are remembered; beyond it the one whose time is over first
	// is forgotten.
	asidePodsMax = 1024
)

// hung counts the calls that were given up and still run, by plugin and by pod. A pod that
// makes a plugin hang again and again counts once: it must not keep the plugin from being called for
// others. A call that is about no pod counts by itself. The lane's lock guards it.
type hung map[string]map[types.UID]int

func (h hung) add(plugin string, pod types.UID) {
	if h[plugin] == nil {
		h[plugin] = map[types.UID]int{}
	}
	h[plugin][pod]++
}

func (h hung) returned(plugin string, pod types.UID) {
	if h[plugin][pod]--; h[plugin][pod] == 0 {
		delete(h[plugin], pod)
	}
	if len(h[plugin]) == 0 {
		delete(h, plugin)
	}
}

// strikes returns for how many pods calls of a plugin hang.
func (h hung) strikes(plugin string) int {
	n := len(h[plugin])
	if alone := h[plugin][""]; alone > 0 {
		n += alone - 1
	}
	return n
}

// running returns how many calls hang.
func (h hung) running() (n int) {
	for _, pods := range h {
		for _, calls := range pods {
			n += calls
		}
	}
	return n
}

// aside remembers the pods that made plugins hang. The loop's goroutine uses it.
type aside map[asideKey]*setAside

type asideKey struct {
	plugin string
	pod    types.UID
}

type setAside struct {
	point Point // where the plugin hung last
	lasts time.Duration
	until time.Time
}

// add notes that a plugin hangs for a pod, and returns how long it is not called for the pod.
func (a aside) add(now time.Time, point Point, plugin string, pod *model.Pod) time.Duration {
	key := asideKey{plugin, pod.UID}
	s := a[key]
	if s == nil {
		if len(a) >= asidePodsMax {
			a.forgetOne()
		}
		s = &setAside{lasts: asideFirst / 2}
		a[key] = s
	}
	s.point, s.lasts = point, min(2*s.lasts, asideMax)
	s.until = now.Add(s.lasts)
	return s.lasts
}

// returned notes that a call for a pod has returned: where it hung before, the pod is forgotten.
func (a aside) returned(point Point, plugin string, pod *model.Pod) {
	key := asideKey{plugin, pod.UID}
	if s := a[key]; s != nil && s.point == point {
		delete(a, key)
	}
}

// forgetOne forgets the pod whose time is over first.
func (a aside) forgetOne() {
	var first asideKey
	for key, s := range a {
		if of := a[first]; of == nil || s.until.Before(of.until) || s.until.Equal(of.until) && key.pod < first.pod {
			first = key
		}
	}
	delete(a, first)
}

// refusal returns why a plugin is not called for a pod, nil if it is.
func (a aside) refusal(now time.Time, point Point, plugin string, pod *model.Pod) error {
	s := a[asideKey{plugin, pod.UID}]
	if s == nil || !now.Before(s.until) {
		return nil
	}
	return &Failure{plugin, point, fmt.Sprintf("not called for this pod for %v, because it did not return", s.lasts)}
}
