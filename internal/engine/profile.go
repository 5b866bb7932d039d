package engine

import "github.com/berth-scheduler/berth/internal/model"

// Profile is the plugins that judge the pods of one scheduler name, in order. It is built by config and never changes.
type Profile struct {
	// Name is the scheduler name that pods choose the profile by.
	Name string
	// Narrowers are asked first, in this order.
	Narrowers []Narrower
	// Filters run in this order; the first to object is the one reported.
	Filters []Filterer
	Scorers []Weighted
	// Reservers are asked in this order about a pod that has got a node.
	Reservers []Reserver
	Gates     []Gate
	Wakers    []Waker
}

// Compile works out the pod's needs: what each filter and then each scorer of the profile wants to know about it. It is
// called before the pod reaches the loop, on whatever goroutine compiles pods.
func (p *Profile) Compile(pod *model.Pod) {
	needs := make([]model.Need, 0, len(p.Filters)+len(p.Scorers))
	for _, f := range p.Filters {
		needs = append(needs, f.FilterNeed(pod))
	}
	for _, s := range p.Scorers {
		needs = append(needs, s.ScoreNeed(pod))
	}
	pod.Needs = needs
}

// Waker returns what the named plugin says of events that may help; nil if the plugin says nothing or is not in the profile.
func (p *Profile) Waker(plugin string) Waker {
	for _, w := range p.Wakers {
		if w.Name() == plugin {
			return w
		}
	}
	return nil
}
