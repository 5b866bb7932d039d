package advice

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// Search looks for the least single change of a pod that gives it a node, one step at a
// time, so that a scheduler can work in between. It is the first part of For. The kinds
// of changes are tried in their order, and the search ends with the first kind that
// helps.
//
// Search never changes the state, which may change between steps. Found was verified in
// the state of its step.
type Search struct {
	trial  *trial
	fits   Fits
	makers []func() []knob
	knobs  []knob
	// at is the current knob. trying holds its settings once begun is set.
	at     int
	begun  bool
	trying bisection
	// groups are the groups in which a change helps. found is the least change so far,
	// compiled the pod with it.
	groups   map[string]bool
	found    *Suggestion
	compiled *model.Pod
	perKind  int
	fitsAsIs bool
}

// Fits reports whether a pod has a feasible node in the present state, and the node.
type Fits func(*model.Pod) (node string, ok bool)

// Around is the input of a Search: the state, the nodes whose labels and taints give the
// changes to try, and the ingest that compiles. In must have no pending objects.
type Around struct {
	State *state.State
	Nodes []*v1.Node
	In    *ingest.Ingest
}

// NewSearch begins a search for a pod that no PreEnqueue plugin holds back.
func NewSearch(c Around, pod *v1.Pod, fits Fits) *Search {
	t := newTrial(Cluster{State: c.State, Nodes: c.Nodes, In: c.In}, Question{Pod: pod, OfPod: true})
	s := &Search{trial: t, fits: fits, groups: map[string]bool{}}
	s.makers = []func() []knob{t.ownedSelectors, t.tolerations, t.requests, t.skews, t.antiAffinities, t.affinities, t.ports}
	return s
}

// Step makes one decision, or collects one kind of changes to try. Collecting iterates
// over all nodes a few times at most. Step reports whether the search is over.
func (s *Search) Step() (over bool) {
	switch {
	case s.trial.advice.Decisions == 0:
		_, s.fitsAsIs, _ = s.try()
		return s.fitsAsIs // The pod has a feasible node now.
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

// begin selects the next knob to try. It returns false if none is left.
func (s *Search) begin() bool {
	for ; s.at < len(s.knobs); s.at++ {
		k := &s.knobs[s.at]
		if s.found != nil && (k.kind != s.found.Changes[0].Kind || s.perKind == maxPerKind) {
			return false
		}
		if k.group == "" || !s.groups[k.group] {
			s.trying, s.begun = newBisection(k), true
			return true
		}
	}
	return false
}

// take stores a change that helps if it is less than the least so far.
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

// Found returns the least change and the changed pod; nil if no single change of the pod
// helps or none is needed.
func (s *Search) Found() (*Suggestion, *model.Pod) { return s.found, s.compiled }

// FitsAsIs reports whether the search ended because the pod fits unchanged.
func (s *Search) FitsAsIs() bool { return s.fitsAsIs }

// Decisions returns the number of decisions made.
func (s *Search) Decisions() int { return s.trial.advice.Decisions }

// Brief returns a text of the change that is valid for all pods with the same needs,
// whatever their containers are called.
func (c *Change) Brief() string {
	if c.Kind == Request {
		return fmt.Sprintf("lower the %s request from %s to %s", c.Resource, c.From, c.To)
	}
	return c.Text
}
