package framework

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// Limits of the records of abandoned calls.
const (
	// maxHung is the number of pods for which a plugin may hang. Beyond that it is not
	// called until a call returns. Each call that hangs stops the loop for the deadline,
	// and each parked pod may cause such a call.
	maxHung = 3
	// asideFirst and maxAside bound how long a plugin is not called for a pod after it
	// hung for that pod. The time doubles with each call that hangs.
	asideFirst, maxAside = time.Minute, time.Hour
	// maxAsidePods limits the remembered pods. Beyond it, the pod with the earliest end
	// is dropped.
	maxAsidePods = 1024
)

// hung counts the abandoned calls that still run, by plugin and by pod. A pod with
// several hanging calls counts once, so that it does not keep the plugin from being
// called for others. A call without a pod counts separately. The lane's lock guards it.
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

// strikes returns the number of pods with hanging calls of a plugin.
func (h hung) strikes(plugin string) int {
	n := len(h[plugin])
	if alone := h[plugin][""]; alone > 0 {
		n += alone - 1
	}
	return n
}

// aside remembers pods whose plugin calls hung. Only the loop's goroutine uses it.
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

// add records that a plugin hangs for a pod, and returns how long it is not called for
// the pod.
func (a aside) add(now time.Time, point Point, plugin string, pod *model.Pod) time.Duration {
	key := asideKey{plugin, pod.UID}
	s := a[key]
	if s == nil {
		if len(a) >= maxAsidePods {
			a.forgetOne()
		}
		s = &setAside{lasts: asideFirst / 2}
		a[key] = s
	}
	s.point, s.lasts = point, min(2*s.lasts, maxAside)
	s.until = now.Add(s.lasts)
	return s.lasts
}

// returned records that a call for a pod has returned. If it returned from the extension
// point where it hung before, the pod is removed.
func (a aside) returned(point Point, plugin string, pod *model.Pod) {
	key := asideKey{plugin, pod.UID}
	if s := a[key]; s != nil && s.point == point {
		delete(a, key)
	}
}

// forgetOne drops the pod with the earliest end.
func (a aside) forgetOne() {
	var first asideKey
	for key, s := range a {
		if of := a[first]; of == nil || s.until.Before(of.until) || s.until.Equal(of.until) && key.pod < first.pod {
			first = key
		}
	}
	delete(a, first)
}

// refusal returns why a plugin is not called for a pod, or nil.
func (a aside) refusal(now time.Time, point Point, plugin string, pod *model.Pod) error {
	s := a[asideKey{plugin, pod.UID}]
	if s == nil || !now.Before(s.until) {
		return nil
	}
	return &Failure{plugin, point, fmt.Sprintf("not called for this pod for %v, because it did not return", s.lasts)}
}
