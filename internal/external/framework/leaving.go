package framework

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// maxLeaving limits how long a turn waits for the Unreserve of pods that were rejected at
// Permit.
const maxLeaving = 20 * time.Millisecond

// Leaving are the pods that plugins have rejected at Permit and whose Unreserve has not
// returned. All profiles share them; any goroutine may use them.
//
// Gang plugins that count members remove a member at Unreserve. A turn that begins as
// soon as the space of one rejected member is free would still find the others counted.
// Coscheduling would then not activate their siblings, and would allow the pod that came
// too early.
type Leaving struct {
	mu   sync.Mutex
	pods map[types.UID]bool
	none chan struct{} // closed when the last pod has left
	// reserving are the profiles with Reserve plugins. Pods of others have no Unreserve.
	reserving map[string]bool
}

// NewLeaving returns an empty set.
func NewLeaving() *Leaving { return &Leaving{pods: map[types.UID]bool{}, reserving: map[string]bool{}} }

// reserve registers a profile with Reserve plugins.
func (l *Leaving) reserve(profile string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserving[profile] = true
}

// reject adds a pod while a function rejects it. The pod stays if the function returns
// true. If several plugins reject the same pod, the first one counts.
func (l *Leaving) reject(profile string, pod types.UID, reject func() bool) bool {
	l.mu.Lock()
	if !l.reserving[profile] {
		l.mu.Unlock()
		return reject()
	}
	if len(l.pods) == 0 {
		l.none = make(chan struct{})
	}
	first := !l.pods[pod]
	l.pods[pod] = true
	l.mu.Unlock()
	rejected := reject()
	if !rejected && first {
		l.left(pod)
	}
	return rejected
}

// left removes a pod whose Unreserve has returned.
func (l *Leaving) left(pod types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.pods[pod] {
		return
	}
	if delete(l.pods, pod); len(l.pods) == 0 {
		close(l.none)
	}
}

// wait returns when no pod is leaving. Pods that take longer than maxLeaving are dropped:
// their plugins reserve nothing, or are slow.
func (l *Leaving) wait() {
	l.mu.Lock()
	n, none := len(l.pods), l.none
	l.mu.Unlock()
	if n == 0 {
		return
	}
	late := time.NewTimer(maxLeaving)
	defer late.Stop()
	select {
	case <-none:
	case <-late.C:
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.none == none && len(l.pods) > 0 {
			clear(l.pods)
			close(none)
		}
	}
}
