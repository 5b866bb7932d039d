package gang

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// room is the result of PodGroupPostFilter plugins for a rejected group.
type room struct {
	// text is appended to the group's message.
	text string
	// waits means that victims were found, or that earlier victims are still terminating.
	waits bool
	// nodes are the nodes to nominate members to, by position in Members. Other members
	// keep their nominations.
	nodes map[int]string
	// victims are the pods to evict, sorted by importance.
	victims []*model.Pod
	plan.GroupPreemption
}

const preemptionPrefix = "pod group preemption: "

// makeRoom searches for victims, so that enough members find a node. short is the reason
// why too few did.
func (a *attempt) makeRoom(short string) (r room, err error) {
	if a.profile == nil {
		return room{}, nil
	}
	if a.fitsWithoutHolds() { // no pod is evicted for space that exists but is held
		return room{text: ", the capacity that the group needs is reserved for another pod group"}, nil
	}
	before := "" // messages of plugins that did not end the chain
	for _, p := range a.profile.PostFilters {
		if p.Freeing != nil {
			freed, err := a.free(p.Freeing)
			switch {
			case err != nil:
				return room{}, fmt.Errorf("error in %q PodGroupPostFilter plugins: %w", p.Name, err)
			case freed.Message != "":
				before += ", " + freed.Message
			}
			if freed.Done {
				return room{text: ", " + freed.Message}, nil
			}
		}
		if p.Group == nil {
			continue
		}
		if r, err = a.preempt(p.Group, short); err != nil {
			a.Preemption = &plan.GroupPreemption{Status: plan.StatusError}
			return room{}, fmt.Errorf("error in %q PodGroupPostFilter plugins: %s%w", p.Name, preemptionPrefix, err)
		}
		a.Preemption = &r.GroupPreemption
		if r.text = ", " + preemptionPrefix + r.text; r.Status != plan.StatusUnschedulable {
			return r, nil
		}
		before += r.text
	}
	r.text = before
	return r, nil
}

// preempt is DefaultPreemption for a group.
func (a *attempt) preempt(p *plugin.GroupPreemption, short string) (room, error) {
	no := func(status, text string) (room, error) {
		return room{text: text, GroupPreemption: plan.GroupPreemption{Status: status}}, nil
	}
	v := a.state.View()
	switch {
	case a.policy(p.OwnPolicy) == v1.PreemptNever:
		return no(plan.StatusUnschedulable, "not eligible due to preemptionPolicy=Never.")
	case a.isOngoing(v):
		r, _ := no(plan.StatusSuccess, "ongoing preemption on nominated nodes")
		r.waits, r.Ongoing = true, true
		return r, nil
	}
	lower := a.lowerPods(v)
	switch {
	case !lower.any():
		return no(plan.StatusUnresolvable, "No preemption victims found for incoming preemptor")
	case a.hopeless:
		return no(plan.StatusUnschedulable, short)
	}
	foretold, known := a.foresee(lower.takeOff)
	if known == foreseen {
		return no(plan.StatusUnschedulable, foretold)
	}
	if text, rests := a.searches.rests(v.Now(), a, known); rests {
		return no(plan.StatusUnschedulable, text)
	}
	candidates := a.candidates(v)
	for i := range candidates {
		a.state.Displace(candidates[i].pods...)
	}
	w := whatIf{attempt: a.again()}
	short, err := w.try()
	r, _ := no(plan.StatusUnschedulable, short)
	if err == nil && short == "" {
		r, err = w.reprieve(p.Rules, candidates)
	}
	w.revert()
	for i := range candidates {
		if u := &candidates[i]; !u.back {
			a.state.Return(u.pods...)
		}
	}
	if r.waits {
		a.searches.found(a)
	} else {
		a.searches.inVain(v.Now(), a, candidates, r.text)
	}
	return r, err
}

// fitsWithoutHolds reports whether enough members would find a node if no space was held
// for other groups.
func (a *attempt) fitsWithoutHolds() bool {
	if !slices.ContainsFunc(a.tried, func(i int) bool { no := a.Members[i].Rejection; return no != nil && no.HeldRoom }) {
		return false
	}
	defer a.state.HideRoomHolds()()
	b := a.again()
	b.observer = nil
	short, err := b.try()
	b.revert()
	return err == nil && short == ""
}

// policy returns the preemption policy of the group: its own, or its members', which
// agree.
func (a *attempt) policy(own bool) v1.PreemptionPolicy {
	if own {
		return a.Group.PreemptionPolicy()
	}
	return a.First().PreemptionPolicy()
}

// isOngoing reports whether an evicted pod of lower priority is still leaving a node that
// a member is nominated to. The preemptor may be the group or another pod.
func (a *attempt) isOngoing(v state.View) bool {
	asked := map[string]bool{}
	for _, i := range a.tried {
		name := a.Members[i].Pod.NominatedNode
		slot, ok := v.Slot(name)
		if !ok || asked[name] {
			continue
		}
		asked[name] = true
		for pod := range v.PodsOn(slot) {
			if v.PreemptionPriority(pod) < a.Group.Priority && v.IsLeaving(pod) {
				return true
			}
		}
	}
	return false
}

// again returns a copy of the attempt without decisions and without a witness.
func (a *attempt) again() attempt {
	b := *a
	b.witness, b.among = nil, 1 // these decisions seldom stand
	b.progress = nil
	b.Attempt = &plan.Attempt{Group: a.Group, Members: make([]plan.Decision, len(a.Members))}
	for i := range a.Members {
		b.Members[i] = plan.Decision{Member: a.Members[i].Member, Nodes: a.Members[i].Nodes}
	}
	return b
}

// whatIf is an attempt without any of the pods that may be evicted. Its members stay
// assumed while these pods return to their nodes.
type whatIf struct {
	attempt
	// placed are the placed members, in order; bySlot are the same by node.
	placed []placedMember
	bySlot map[int32][]placedMember
	use    state.Use
}

// placedMember is a member on its node.
type placedMember struct {
	*engine.MemberFilter
	member int
	pod    *model.Pod
	slot   int32
}

// reprieve puts the candidates for eviction back on their nodes, one after the other, if
// all members still pass. Candidates whose eviction would violate a PodDisruptionBudget
// come first, then the more important ones. The rest are the victims. As in
// kube-scheduler, the members stay on the nodes that they found without any candidate.
func (w *whatIf) reprieve(rules plugin.PreemptionRules, candidates []unit) (room, error) {
	slices.SortFunc(candidates, byImportance(rules))
	r := room{waits: true, nodes: map[int]string{}, GroupPreemption: plan.GroupPreemption{Status: plan.StatusSuccess}}
	violating := violations(w.state.View(), rules.Budgets, candidates)
	if err := w.collect(); err != nil {
		return room{}, err
	}
	for _, violates := range []bool{true, false} {
		for i := range candidates {
			u := &candidates[i]
			if (violating[i] > 0) != violates {
				continue
			}
			w.state.Return(u.pods...)
			fits, err := w.fitBeside(u)
			if u.back = fits; fits {
				continue
			}
			w.state.Displace(u.pods...)
			if err != nil {
				return room{}, err
			}
			w.renew()
			r.Violations += violating[i]
		}
	}
	for i := range candidates {
		u := &candidates[i]
		if u.back {
			continue
		}
		r.victims = append(r.victims, u.pods...)
		if u.grouped {
			r.Disruptions++
		}
	}
	for i := range w.placed {
		s := &w.placed[i]
		r.nodes[s.member] = w.Members[s.member].Placement.NodeName
	}
	r.Victims = len(r.victims)
	r.text = fmt.Sprintf("found a placement for podgroup, preempting %d victims", r.Victims)
	return r, nil
}

// collect collects the placed members, with a filter for each.
func (w *whatIf) collect() error {
	w.bySlot = map[int32][]placedMember{}
	for _, i := range w.tried {
		m := &w.Members[i]
		if m.Outcome != plan.Placed {
			continue
		}
		pod := m.Pod
		slot, _ := w.state.Slot(m.Placement.NodeName)
		found, err := w.engine.MemberFilterOf(w.state.View(), pod)
		if err != nil {
			return err
		}
		s := placedMember{found, i, pod, slot}
		w.placed, w.bySlot[slot] = append(w.placed, s), append(w.bySlot[slot], s)
	}
	return nil
}

// fitBeside reports whether all members still pass on their nodes after the pods of a
// unit have returned to theirs. It checks only the members on the same nodes, unless
// filters of other members count these pods, or these pods repel other members.
func (w *whatIf) fitBeside(u *unit) (bool, error) {
	if w.concernsAll(u) {
		return w.passInTurn(w.placed)
	}
	var last int32 = -1
	for _, pod := range u.pods {
		slot, ok := w.state.Slot(pod.NodeName)
		members := w.bySlot[slot]
		if !ok || len(members) == 0 || slot == last {
			continue
		}
		last = slot
		if slices.ContainsFunc(members, func(s placedMember) bool { return s.IsNear() }) {
			if fits, err := w.passInTurn(members); err != nil || !fits {
				return false, err
			}
			continue
		}
		if !w.fitByUse(slot, members) {
			return false, nil
		}
	}
	return true, nil
}

// concernsAll reports whether a returned unit may affect members on any node.
func (w *whatIf) concernsAll(u *unit) bool {
	v := w.state.View()
	repelling := u.pods
	if !slices.ContainsFunc(u.pods, func(pod *model.Pod) bool { return len(pod.Terms) > 0 }) {
		repelling = nil
	}
	volumes := slices.ContainsFunc(u.pods, func(pod *model.Pod) bool { return pod.Volumes != nil })
	for i := range w.placed {
		s := &w.placed[i]
		if s.IsMoved() || volumes && s.pod.Volumes != nil || slices.ContainsFunc(repelling, func(pod *model.Pod) bool { return v.Repels(pod, s.pod) }) {
			return true
		}
	}
	return false
}

// fitByUse adds up the resource usage of the pods on a node, which is all that filters
// read. The members are added in turn, as when they were placed.
func (w *whatIf) fitByUse(slot int32, members []placedMember) bool {
	w.use.Reset(w.state.View().Node(slot))
	for i := range members {
		w.use.Add(members[i].pod, -1)
	}
	for i := range members {
		if !members[i].FitsWith(slot, &w.use) {
			return false
		}
		w.use.Add(members[i].pod, +1)
	}
	return true
}

// passInTurn runs all filters for members, each on its node together with the members
// before it, as when they were placed. Afterwards all are on their nodes.
func (w *whatIf) passInTurn(members []placedMember) (fits bool, err error) {
	for _, s := range slices.Backward(members) {
		w.state.Unassume(w.Members[s.member].Placement)
	}
	fits = true
	for _, s := range members {
		if fits && err == nil {
			fits, err = w.engine.Passes(w.state.View(), s.pod, s.slot)
		}
		w.state.Assume(w.Members[s.member].Placement)
	}
	w.renew()
	return fits && err == nil, err
}

// renew records the present counts as counts with which the members pass.
func (w *whatIf) renew() {
	for i := range w.placed {
		w.placed[i].Renew()
	}
}

// evictions returns the pods to evict.
func (r *room) evictions() []plan.Eviction {
	var evictions []plan.Eviction
	for _, pod := range r.victims {
		evictions = append(evictions, plan.Eviction{Pod: pod, NodeName: pod.NodeName})
	}
	return evictions
}
