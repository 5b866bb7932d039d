package engine

import (
	"errors"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Out-of-tree plugins and extenders run after the columns. A turn filter gets the nodes
// that the built-in filters pass, an extender the nodes that all filters pass. The first
// rejecting filter, in the configured order, matters only when no node is feasible. Then
// a turn filter before built-in filters also gets the nodes that these reject. Results
// are not kept across turns.

// turnVerdicts are the verdicts of a turn filter in the view of the cycle. The filter is
// called once for each node.
type turnVerdicts struct {
	plugin.TurnVerdicts
	own plugin.Verdicts
	// codes and known are indexed by slot. A verdict is present if known has the number
	// of the turn.
	codes []reason.Code
	known []uint64
	turn  uint64
	// slots and some are memory for one call.
	slots []int32
	some  []reason.Code
}

// begin resets t to another turn's verdicts. The turn has this number.
func (t *turnVerdicts) begin(of plugin.TurnVerdicts, slots int, turn uint64) {
	t.TurnVerdicts, t.turn = of, turn
	t.own = plugin.Verdicts{NodeVerdicts: t, Failures: of, Pending: of}
	if len(t.codes) < slots {
		t.codes, t.known = make([]reason.Code, slots), make([]uint64, slots)
	}
}

// Filter returns the verdict on one node.
func (t *turnVerdicts) Filter(node state.Node) reason.Code {
	slot := node.Slot()
	if t.known[slot] != t.turn {
		t.codes[slot], t.known[slot] = t.TurnVerdicts.Filter(node), t.turn
	}
	return t.codes[slot]
}

// ask fetches the missing verdicts on these nodes and returns their number.
func (t *turnVerdicts) ask(slots []int32) (asked int) {
	t.slots = t.slots[:0]
	for _, slot := range slots {
		if t.known[slot] != t.turn {
			t.slots = append(t.slots, slot)
		}
	}
	if len(t.slots) == 0 {
		return 0
	}
	if cap(t.some) < len(t.slots) {
		t.some = make([]reason.Code, len(t.slots)+len(t.slots)/4)
	}
	some := t.some[:len(t.slots)]
	clear(some)
	t.FilterAll(t.slots, some)
	for at, slot := range t.slots {
		t.codes[slot], t.known[slot] = some[at], t.turn
	}
	return len(t.slots)
}

// failing are the verdicts of a filter whose Turn failed: an error for every node.
type failing struct{ err error }

// Filter returns the code of the error.
func (failing) Filter(state.Node) reason.Code { return reason.Failed }

// Reasons returns the error's text.
func (f failing) Reasons(reason.Code) []string { return []string{f.err.Error()} }

// Err returns the error.
func (f failing) Err(state.View, *model.Pod, reason.Code) error { return f.err }

// IsPending is false for an error.
func (failing) IsPending(reason.Code) bool { return false }

// FilterAll fails for each node.
func (failing) FilterAll(_ []int32, codes []reason.Code) {
	for i := range codes {
		codes[i] = reason.Failed
	}
}

// turnVerdictsIn returns the verdicts of a turn filter in the view of f, or nil if every
// node passes.
func (e *Engine) turnVerdictsIn(c *cycle, i int, f *filters) *plugin.Verdicts {
	of, err := c.profile.Filters[i].Turn(f.view)
	switch {
	case err != nil:
		of = failing{err}
	case of == nil:
		return nil
	}
	if f.view != c.view { // a dry run
		if len(f.turn) < len(c.counting) {
			f.turn = make([]plugin.Verdicts, len(c.counting))
		}
		f.turn[i] = plugin.Verdicts{NodeVerdicts: of, Failures: of, Pending: of}
		return &f.turn[i]
	}
	own := e.scratch.turn[c.profile.ids[i]]
	if own == nil {
		own = new(turnVerdicts)
		if e.scratch.turn == nil {
			e.scratch.turn = map[int32]*turnVerdicts{}
		}
		e.scratch.turn[c.profile.ids[i]] = own
	}
	own.begin(of, f.view.State().Slots(), e.columns.clock)
	return &own.own
}

// turnVerdicts returns the verdicts of a turn filter in the view of the cycle, or nil if
// every node passes.
func (e *Engine) turnVerdicts(c *cycle, i int) *turnVerdicts {
	if c.here.verdicts[i] == nil {
		return nil
	}
	return e.scratch.turn[c.profile.ids[i]]
}

// filterByTurn keeps the given nodes that no turn filter rejects, in place.
func (e *Engine) filterByTurn(c *cycle, slots []int32) ([]int32, error) {
	for _, i := range c.profile.turnFilters {
		own := e.turnVerdicts(c, i)
		if own == nil || len(slots) == 0 {
			continue
		}
		e.asked(c.profile.first+int32(i), own.ask(slots))
		passed, codes := keepFeasible(slots, own.codes)
		if codes.IsFailed() {
			if err := e.firstTurnFailure(c, i, own); err != nil {
				return nil, err
			}
		}
		slots = passed
	}
	return slots, nil
}

// firstTurnFailure returns the error of the first node, by slot, on which the filter
// failed and which no earlier filter rejects.
func (e *Engine) firstTurnFailure(c *cycle, filter int, own *turnVerdicts) error {
	for slot, code := range own.codes {
		if o := (objection{filter: filter, code: code}); own.known[slot] == own.turn && code.IsFailed() && e.first(c, &c.here, int32(slot)) == o {
			if err := e.failureOn(c, int32(slot), o); err != nil {
				return err
			}
		}
	}
	return nil
}

// failureIn returns the error of a turn filter on a node that it got only because no node
// is feasible.
func (c *cycle) failureIn(counts *objectionCounts) error {
	for i := range counts.list {
		if o := counts.list[i].objection; o.code.IsFailed() {
			return c.failure(&c.here, o)
		}
	}
	return nil
}

// asksOutside reports whether out-of-tree plugins or extenders filter nodes for the pod.
// Then verdicts of the cycle are not cached.
func (c *cycle) asksOutside() bool {
	if c.profile.External != nil {
		return true
	}
	for _, x := range c.profile.Extenders {
		if x.Traits().Filters && x.IsInterested(c.pod.Object) {
			return true
		}
	}
	return false
}

// isPending reports whether a verdict is kube-scheduler's Pending.
func isPending(of *plugin.Verdicts, code reason.Code) bool {
	return of.Pending != nil && of.Pending.IsPending(code)
}

// extended holds the extenders' verdicts on the nodes that passed all filters. It stands
// behind the verdicts of the filters.
type extended struct {
	// asked are the nodes, ascending, and codes their verdicts. A code is the position of
	// its text, plus one, with reason.Unresolvable.
	asked []int32
	codes []reason.Code
	texts []string
	// byText finds the code of a text: an extender may return a different text for each
	// node.
	byText map[string]reason.Code
	// absent are the reasons of nodes that an extender omits. As in kube-scheduler, these
	// are the reasons of nodes that PreFilter plugins leave out.
	absent []string
	// bare means that nodes are scored without their pods and images.
	bare bool
	own  plugin.Verdicts
}

// Filter returns the verdict on one node.
func (x *extended) Filter(node state.Node) reason.Code {
	if at, ok := slices.BinarySearch(x.asked, node.Slot()); ok {
		return x.codes[at]
	}
	return reason.None
}

// silent is the code of a node that an extender neither passed nor gave a reason for.
const silent = reason.Unresolvable | reason.Code(1<<29)

// Reasons returns the text of a code.
func (x *extended) Reasons(code reason.Code) []string {
	if code == silent {
		return x.absent
	}
	return []string{x.texts[code&^reason.Unresolvable-1]}
}

// text returns the code of a text.
func (x *extended) text(text string) reason.Code {
	code, ok := x.byText[text]
	if !ok {
		x.texts = append(x.texts, text)
		code = reason.Code(len(x.texts))
		x.byText[text] = code
	}
	return code
}

// filterByExtenders keeps the given nodes that no extender rejects. The nodes are
// ascending. Each extender gets the nodes that earlier extenders passed.
func (e *Engine) filterByExtenders(c *cycle, slots []int32) ([]int32, error) {
	var said *extended
	for _, x := range c.profile.Extenders {
		if len(slots) == 0 {
			break
		}
		if !x.Traits().Filters || !x.IsInterested(c.pod.Object) {
			continue
		}
		if said == nil {
			said = &extended{asked: slices.Clone(slots), codes: make([]reason.Code, len(slots)), byText: map[string]reason.Code{}}
			if len(c.narrowed.by) > 0 {
				said.absent = []string{c.narrowed.text()}
			}
		}
		verdicts, err := x.Filter(c.pod.Object, objectsOf(c.view, slots))
		if err != nil {
			if x.Traits().Ignorable {
				continue
			}
			return nil, err
		}
		slots = said.take(c.view, &verdicts, slots)
	}
	if said != nil {
		c.extended = said
		c.usage.known = false // dry runs exclude extenders
		said.own.NodeVerdicts = said
		c.here.verdicts = append(c.here.verdicts, &said.own)
	}
	return slots, nil
}

// extendersOn returns the objection of extenders to a single node. Their verdicts are not
// kept.
func (e *Engine) extendersOn(c *cycle, slot int32) (objection, error) {
	filters := len(c.here.verdicts)
	passed, err := e.filterByExtenders(c, []int32{slot})
	if err != nil || len(passed) == 1 {
		return objection{}, err
	}
	o := objection{filter: filters, code: c.extended.codes[0]}
	c.extended, c.here.verdicts = nil, c.here.verdicts[:filters]
	return o, nil
}

// take records an extender's verdicts and returns the nodes that pass.
func (x *extended) take(v state.View, verdicts *plugin.ExtenderVerdicts, slots []int32) (passed []int32) {
	names := make(map[string]bool, len(verdicts.Passed))
	for _, name := range verdicts.Passed {
		names[name] = true
	}
	for _, slot := range slots {
		name := v.Node(slot).Name()
		if names[name] {
			passed = append(passed, slot)
			continue
		}
		code := silent
		if text, ok := verdicts.Unresolvable[name]; ok {
			code = x.text(text) | reason.Unresolvable
		} else if text, ok := verdicts.Failed[name]; ok {
			code = x.text(text)
		}
		at, _ := slices.BinarySearch(x.asked, slot)
		x.codes[at] = code
	}
	x.bare = x.bare || verdicts.Bare
	return passed
}

func objectsOf(v state.View, slots []int32) []*v1.Node {
	nodes := make([]*v1.Node, len(slots))
	for at, slot := range slots {
		nodes[at] = v.Node(slot).Object()
	}
	return nodes
}

// nameOf returns the name of the filter at a position. Extenders come behind the
// profile's filters.
func (p *profile) nameOf(filter int) string {
	if filter >= len(p.Filters) {
		return plugin.ExtenderName
	}
	return p.Filters[filter].Name
}

// preScore runs the out-of-tree PreScore plugins.
func (c *cycle) preScore(slots []int32) error {
	if c.extended != nil && c.extended.bare && c.profile.External != nil {
		c.profile.External.Bare()
	}
	for _, p := range c.profile.PreScores {
		if err := p.Run(c.view, slots); err != nil {
			return errPreScore(p.Name, err)
		}
	}
	return nil
}

// turnScores returns the scores of a Score plugin with Turn by position in the feasible
// slots, or nil if it skips the pod. They are valid until the next call.
func (e *Engine) turnScores(c *cycle, i int, p *plugin.Score, slots []int32) ([]int64, error) {
	scores := e.setMemory(len(slots))
	clear(scores)
	ok, err := p.Turn(c.view, slots, scores)
	if !ok || err != nil {
		return nil, err
	}
	e.byPlugin[int(c.profile.first)+len(c.profile.Filters)+i] += int64(len(slots))
	return scores, nil
}

// addExtenders adds the extenders' scores to the totals. Extenders are called
// concurrently. As in kube-scheduler, a failed call adds nothing.
func (e *Engine) addExtenders(c *cycle, slots []int32, totals []int64) {
	var asked sync.WaitGroup
	answers := make([]map[string]int64, len(c.profile.Extenders))
	var nodes []*v1.Node
	pod := c.pod.Object
	for i, x := range c.profile.Extenders {
		if !x.Traits().Prioritizes || !x.IsInterested(pod) {
			continue
		}
		if nodes == nil {
			nodes = objectsOf(c.view, slots)
		}
		asked.Go(func() {
			if scores, err := x.Prioritize(pod, nodes); err == nil {
				answers[i] = scores
			}
		})
	}
	asked.Wait()
	for _, scores := range answers {
		if len(scores) == 0 {
			continue
		}
		for at := range slots {
			totals[at] += scores[nodes[at].Name]
		}
	}
}

// bareScores returns the raw scores of the nodes in these slots, by slot, as if the nodes
// were empty. kube-scheduler scores nodes that an extender returned as whole objects
// without their pods and images.
func (e *Engine) bareScores(c *cycle, p *plugin.Score, column *scoreColumn, slots []int32) []int32 {
	raw := make([]int32, c.view.State().Slots())
	if p.Reads == 0 || p.Reads&model.Images != 0 {
		return raw
	}
	var nothing state.Use
	for _, slot := range slots {
		raw[slot] = column.scores.Score(c.view.NodeWith(slot, &nothing))
	}
	return raw
}

// refuse ends a decision whose placement a Reserve or Permit plugin rejected, or failed
// for.
func (e *Engine) refuse(p *profile, d *plan.Decision, placement *plan.Placement, err error) {
	if p.External != nil {
		p.External.Unreserve(placement)
	}
	var refusal *plugin.Refusal
	if !errors.As(err, &refusal) {
		fail(d, err)
		return
	}
	d.Outcome, d.Nodes, d.Feasible = plan.Unschedulable, 1, 0 // the chosen node
	var tally reason.Tally
	tally.Add(1, refusal.Reasons...)
	d.Rejection = &plan.Rejection{Counts: tally.Counts(), Plugins: []string{refusal.Plugin}}
	if refusal.Pending {
		d.Rejection.Pending = d.Rejection.Plugins
	}
	d.Nominations = clearNomination(d.Pod)
}
