package advice

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// Search looks for the least single change of a pod itself with which it has a node, a step at a time, so that a scheduler can go on in between. It is the beginning of what For does: the kinds of changes are tried in
// their order, and it ends with the first kind that helps. Nothing is changed in the state, which may be another one at each step: Found was true when it was tried.
type Search struct {
	trial  *trial
	fits   Fits
	makers []func() []knob
	knobs  []knob
	// at is the knob that is tried, by which setting trying says once begun.
	at     int
	begun  bool
	trying bisection
	// groups are those of which a change helps. found is the least change so far, compiled the pod with it.
	groups   map[string]bool
	found    *Suggestion
	compiled *model.Pod
	perKind  int
	fitsAsIs bool
}

// Fits says whether a pod has a node in the state as it is, and which.
type Fits func(*model.Pod) (node string, ok bool)

// Around is what a Search reads: the state, the nodes from whose labels and taints it takes what to try, and the ingest that compiles. Nothing may wait in In.
type Around struct {
	State *state.State
	Nodes []*v1.Node
	In    *ingest.Ingest
}

// NewSearch begins a search for a pod, which a plugin has not held back at PreEnqueue.
func NewSearch(c Around, pod *v1.Pod, fits Fits) *Search {
	t := newTrial(Cluster{State: c.State, Nodes: c.Nodes, In: c.In}, Question{Pod: pod, OfPod: true})
	s := &Search{trial: t, fits: fits, groups: map[string]bool{}}
	s.makers = []func() []knob{t.selectors, t.tolerations, t.requests, t.skews, t.antiAffinities, t.affinities, t.ports}
	return s
}

// Step makes one decision, or looks around once for what to try; that takes as long as it takes to look at all nodes a few times at most. It reports whether the search is over.
func (s *Search) Step() (over bool) {
	switch {
	case s.trial.advice.Decisions == 0:
		_, s.fitsAsIs, _ = s.try()
		return s.fitsAsIs // it has a node meanwhile
	case len(s.makers) > 0:
		s.knobs = append(s.knobs, s.makers[0]()...)
		if s.makers = s.makers[1:]; len(s.makers) == 0 {
			s.knobs = inOrder(s.knobs)
		}
		return false
	}
	if !s.begun && !s.begin() {
		return true
	}
	change, more := s.trying.next()
	if more {
		if !s.trial.mayGoOn() {
			return true
		}
		node, ok, compiled := s.try(change)
		if s.trying.note(node, ok); ok {
			s.take(Suggestion{Changes: []Change{change}, Node: node}, compiled)
		}
		return false
	}
	if s.trying.found {
		s.groups[s.trying.knob.group] = true
		s.perKind++
	}
	s.at, s.begun = s.at+1, false
	return false
}

// begin begins with the next knob that is to be tried; it reports whether there is one.
func (s *Search) begin() bool {
	for ; s.at < len(s.knobs); s.at++ {
		k := &s.knobs[s.at]
		if s.found != nil && (k.kind != s.found.Changes[0].Kind || s.perKind == perKindMax) {
			return false
		}
		if k.group == "" || !s.groups[k.group] {
			s.trying, s.begun = newBisection(k), true
			return true
		}
	}
	return false
}

// take notes what helps, if it is less than what did so far.
func (s *Search) take(suggestion Suggestion, compiled *model.Pod) {
	if s.found == nil || compare(&suggestion, s.found) < 0 {
		s.found, s.compiled = &suggestion, compiled
	}
}

func (s *Search) try(changes ...Change) (node string, ok bool, compiled *model.Pod) {
	s.trial.advice.Decisions++
	compiled = s.trial.compile(edited(s.trial.Pod, changes))
	node, ok = s.fits(compiled)
	return node, ok, compiled
}

// Found returns the least change that was found, and the pod with it; nil if no single change of the pod helps, or none is needed.
func (s *Search) Found() (*Suggestion, *model.Pod) { return s.found, s.compiled }

// FitsAsIs reports whether the pod has a node without any change, by which the search ended.
func (s *Search) FitsAsIs() bool { return s.fitsAsIs }

// Decisions is how many decisions were made.
func (s *Search) Decisions() int { return s.trial.advice.Decisions }

// Brief is the text of a change that holds for all pods with the same needs, whatever the names of their containers.
func (c *Change) Brief() string {
	if c.Kind == Request {
		return fmt.Sprintf("lower the %s request from %s to %s", c.Resource, c.From, c.To)
	}
	return c.Text
}
