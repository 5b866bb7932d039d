package sample

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// seats holds the seats of pods. A pod gets the lowest free seat on its node. Extension
// points and the informer's handlers use it from different goroutines. It holds the pods
// that this process has reserved and that have not been deleted.
type seats struct {
	mu    sync.Mutex
	pods  map[types.UID]seat
	taken map[string]map[int]bool // by node
}

type seat struct {
	node   string
	number int
}

// take assigns a pod a seat on a node, and frees its previous seat.
func (s *seats) take(pod types.UID, node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(pod)
	if s.pods == nil {
		s.pods, s.taken = map[types.UID]seat{}, map[string]map[int]bool{}
	}
	if s.taken[node] == nil {
		s.taken[node] = map[int]bool{}
	}
	number := 1
	for s.taken[node][number] {
		number++
	}
	s.taken[node][number] = true
	s.pods[pod] = seat{node, number}
}

// leave frees a pod's seat, if it has one.
func (s *seats) leave(pod types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(pod)
}

func (s *seats) remove(pod types.UID) {
	has, ok := s.pods[pod]
	if !ok {
		return
	}
	delete(s.pods, pod)
	delete(s.taken[has.node], has.number)
	if len(s.taken[has.node]) == 0 {
		delete(s.taken, has.node)
	}
}

// of returns the number of a pod's seat.
func (s *seats) of(pod types.UID) (number int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	has, ok := s.pods[pod]
	return has.number, ok
}
