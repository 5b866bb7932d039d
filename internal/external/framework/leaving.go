package framework

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// leavingMax bounds how long a turn waits for the Unreserve of pods that were rejected at Permit.
const leavingMax = 20 * time.Millisecond

// Leaving are the pods that plugins have rejected at Permit and whose Unreserve has not returned.
// All profiles share them; any goroutine may use them.
//
// Plugins that count the members of a gang take a member out at Unreserve. A turn that begins as
// soon as the room of one rejected member is free would find the others counted: Coscheduling then
// leaves their siblings asleep, and lets go of the pod that has come too early.
type Leaving struct {
	mu   sync.Mutex
	pods map[types.UID]bool
	none chan struct{} // closed when the last one has left
	// reserving are the profiles with Reserve plugins. Pods of others have no Unreserve.
	reserving map[string]bool
}

// NewLeaving returns a set without pods.
func NewLeaving() *Leaving { return &Leaving{pods: map[types.UID]bool{}, reserving: map[string]bool{}} }

// reserve notes that a profile has Reserve plugins.
func (l *Leaving) reserve(profile string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reserving[profile] = true
}

// reject notes a pod while a function rejects it, and goes on if the function reports that it did.
// Of several plugins that reject the same pod, the first one does.
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

// left notes that the Unreserve of a pod has returned.
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

// wait returns when no pod is leaving. Pods that take longer than leavingMax are forgotten: their
// plugins do not reserve anything, or are slow.
func (l *Leaving) wait() {
	l.mu.Lock()
	n, none := len(l.pods), l.none
	l.mu.Unlock()
	if n == 0 {
		return
	}
	late := time.NewTimer(leavingMax)
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
