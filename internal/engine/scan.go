package engine

import (
	"fmt"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugins/compiled"
	"github.com/berth-scheduler/berth/internal/reason"
	"github.com/berth-scheduler/berth/internal/state"
)

// scan is the working memory of one decision, kept from one to the next so that none is allocated per node.
type scan struct {
	slots  []int32 // the feasible slots, ascending
	totals []int64 // their weighted scores, by position in slots
	shares []int64 // normalised score times weight, by raw score
	// layers are the rules about counts of all the pod's layer filters, and layered which of them are whose, by position in the profile.
	layers  []compiled.Layer
	layered []layeredFilter
	// one is a set scorer's scores, by position in slots.
	one []int64
	// filters are a pod's compiled filters, by position in the profile; nil where a filter has nothing to say.
	filters []compiled.Filter
	firstID int32 // of filters[0] among all profiles' plugins
}

// layeredFilter asks a layer filter's rules about one node.
type layeredFilter struct {
	need        compiled.Layers
	first, last int // in scan.layers
	layers      []compiled.Layer
}

// Filter gives the verdict of the first rule that objects.
func (f *layeredFilter) Filter(node state.Node) reason.Code {
	for i := range f.layers {
		if code := f.layers[i].Verdict(node.Slot()); code != reason.None {
			return code
		}
	}
	return reason.None
}

// Reasons puts a code into words.
func (f *layeredFilter) Reasons(code reason.Code) []string { return f.need.Reasons(code) }

// fewNodes is how many nodes are cheaper to ask one by one than through columns. Pods pinned to one node, as a DaemonSet's
// are, each have a need of their own: a column for each would never be used again.
const fewNodes = 64

// feasible fills e.scan.slots with the nodes that no filter objects to, whether or not the pods that were promised a place are there.
func (e *Engine) feasible(s *state.State, p *profile, pod *model.Pod, n narrowing) {
	e.fits(s, p, pod, n)
	if s.Nominated() > 0 && len(e.scan.slots) > 0 {
		e.leaveToPromised(s, p, pod)
	}
}

func (e *Engine) fits(s *state.State, p *profile, pod *model.Pod, n narrowing) {
	switch {
	case len(n.by) == 0:
		e.feasibleAmongAll(s, p, pod)
	case len(n.slots) <= fewNodes:
		e.compile(p, pod)
		e.scan.slots = e.scan.slots[:0]
		for _, slot := range n.slots {
			if _, code := e.firstObjection(s.Node(slot)); code == reason.None {
				e.scan.slots = append(e.scan.slots, slot)
			}
		}
		e.work.Visited += int64(len(n.slots))
	default:
		e.feasibleAmongAll(s, p, pod)
		e.scan.slots = intersectSorted(e.scan.slots, n.slots)
	}
}

func (e *Engine) feasibleAmongAll(s *state.State, p *profile, pod *model.Pod) {
	alive := s.Alive()
	slots := e.scan.slots
	if cap(slots) < len(alive) {
		slots = make([]int32, len(alive))
	}
	slots = slots[:len(alive)]
	n := 0
	for slot, ok := range alive {
		slots[n] = int32(slot)
		if ok {
			n++
		}
	}
	slots = slots[:n]
	e.work.Visited += int64(len(alive))
	for i := range p.Filters {
		c := e.filterColumn(s, p, i, pod)
		if c == nil || c.nonZero == 0 {
			continue
		}
		slots = keepFeasible(slots, c.values)
	}
	e.readLayers(p, len(slots))
	for i := range e.scan.layers {
		slots = keepWithin(slots, &e.scan.layers[i])
	}
	e.scan.slots = slots
}

// readLayers counts that the layer filters that have something to say are asked about so many nodes.
func (e *Engine) readLayers(p *profile, nodes int) {
	for i := range p.Filters {
		if len(e.scan.layered[i].layers) > 0 {
			e.byPlugin[int(p.firstID)+i] += int64(nodes)
		}
	}
}

// keepWithin drops the slots that the layer rejects, in place.
func keepWithin(slots []int32, layer *compiled.Layer) []int32 {
	n := 0
	domains, counts, low, high := layer.Domains, layer.Counts, layer.Min, layer.Max
	withoutDomain := layer.Missing == reason.None
	for _, slot := range slots {
		slots[n] = slot
		domain := domains[slot]
		ok := withoutDomain
		if domain >= 0 {
			var count int32
			if int(domain) < len(counts) {
				count = counts[domain]
			}
			ok = count >= low && count <= high
		}
		if ok {
			n++
		}
	}
	return slots[:n]
}

// keepFeasible drops the slots that the column objects to, in place. Writing first and counting after keeps the loop free of
// branches that cannot be predicted.
func keepFeasible(slots []int32, codes []reason.Code) []int32 {
	n := 0
	for _, slot := range slots {
		slots[n] = slot
		if codes[slot] == reason.None {
			n++
		}
	}
	return slots[:n]
}

func intersectSorted(a, b []int32) []int32 {
	n, j := 0, 0
	for _, x := range a {
		for j < len(b) && b[j] < x {
			j++
		}
		if j < len(b) && b[j] == x {
			a[n] = x
			n++
		}
	}
	return a[:n]
}

// best returns the feasible slot with the highest total. Equals are told apart by a hash of seed, pod and node, so that each is
// as likely as the other and yet a run can be repeated.
func (e *Engine) best(s *state.State, p *profile, pod *model.Pod) (slot int32, total int64, err error) {
	slots := e.scan.slots
	if cap(e.scan.totals) < len(slots) {
		e.scan.totals = make([]int64, len(slots)+len(slots)/4)
	}
	totals := e.scan.totals[:len(slots)]
	clear(totals)
	var everywhere int64 // what all nodes score alike
	for i := range p.Scorers {
		constant, err := e.addScores(s, p, i, pod, totals)
		if err != nil {
			return 0, 0, err
		}
		everywhere += constant
	}
	at := highest(s.NameHashes(), slots, totals, mix(e.seed^state.HashName(pod.Namespace+"/"+pod.Name)))
	return slots[at], totals[at] + everywhere, nil
}

// highest returns the position of the highest total. Of equal ones it takes the highest hash, which is worked out only for those
// that are highest so far.
func highest(nameHashes []uint64, slots []int32, totals []int64, salt uint64) int {
	best, bestHash := 0, mix(salt^nameHashes[slots[0]])
	bestTotal := totals[0]
	for at, total := range totals {
		if total < bestTotal {
			continue
		}
		if h := mix(salt ^ nameHashes[slots[at]]); total > bestTotal || h > bestHash {
			best, bestTotal, bestHash = at, total, h
		}
	}
	return best
}

// mix spreads a hash over all its bits (the finalizer of splitmix64, Steele et al. 2014).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// addScores adds one scorer's normalised and weighted scores to the totals, or returns what it would add to each of them alike.
func (e *Engine) addScores(s *state.State, p *profile, i int, pod *model.Pod, totals []int64) (everywhere int64, err error) {
	weight := p.Scorers[i].Weight
	column, ok := p.Scorers[i].Scorer.(ColumnScorer)
	if !ok {
		scores, err := e.setScores(s, p, i, pod)
		for at, score := range scores {
			totals[at] += score * weight
		}
		return 0, err
	}
	raw, err := e.rawScores(s, p, i, column, pod)
	if err != nil || raw == nil {
		return 0, err
	}
	if column.Normalization() != model.AsIs {
		return e.addNormalized(column, weight, raw, totals)
	}
	slots := e.scan.slots
	totals = totals[:len(slots)]
	for at, slot := range slots {
		totals[at] += int64(raw[slot]) * weight
	}
	return 0, nil
}

// rawScores returns a column scorer's raw scores by slot, or nil if it has no say.
func (e *Engine) rawScores(s *state.State, p *profile, i int, scorer ColumnScorer, pod *model.Pod) ([]int32, error) {
	c, err := e.scoreColumn(s, p, i, scorer, pod)
	if c == nil {
		return nil, err
	}
	return c.values, nil
}

// setScores returns a set scorer's scores by position in the feasible slots, or nil if it has no say. They are true until the next call.
func (e *Engine) setScores(s *state.State, p *profile, i int, pod *model.Pod) ([]int64, error) {
	scorer := p.Scorers[i].Scorer.(SetScorer)
	set, err := e.setOf(p, i, scorer, pod)
	if set == nil {
		return nil, err
	}
	slots := e.scan.slots
	if cap(e.scan.one) < len(slots) {
		e.scan.one = make([]int64, len(slots)+len(slots)/4)
	}
	scores := e.scan.one[:len(slots)]
	ok, err := set.Score(s, slots, scores)
	if err != nil {
		return nil, errPreScore(scorer, err)
	}
	if !ok {
		return nil, nil
	}
	e.byPlugin[int(p.firstID)+len(p.Filters)+i] += int64(len(slots))
	return scores, nil
}

func (e *Engine) addNormalized(scorer ColumnScorer, weight int64, raw []int32, totals []int64) (everywhere int64, err error) {
	how := scorer.Normalization()
	slots := e.scan.slots
	var largest int32
	for _, slot := range slots {
		v := raw[slot]
		largest = max(largest, v)
		if v < 0 {
			return 0, errOutOfRange(scorer.Name(), v)
		}
	}
	if largest == 0 {
		return normalize(how, 0, 0) * weight, nil
	}
	if shares := e.sharesTo(largest, how, weight); shares != nil {
		for at, slot := range slots {
			totals[at] += shares[raw[slot]]
		}
		return 0, nil
	}
	for at, slot := range slots {
		totals[at] += normalize(how, raw[slot], largest) * weight
	}
	return 0, nil
}

// normalize brings a raw score into 0..MaxScore, given the largest one, as kube-scheduler's DefaultNormalizeScore does.
func normalize(how model.Normalization, raw, largest int32) int64 {
	switch {
	case how == model.AsIs || largest == 0 && how == model.Largest:
		return int64(raw)
	case largest == 0:
		return MaxScore
	}
	share := MaxScore * int64(raw) / int64(largest)
	if how == model.LargestReversed {
		return MaxScore - share
	}
	return share
}

// tabulated is up to which largest raw score a table of normalised scores is cheaper than a division for each node.
const tabulated = 256

func (e *Engine) sharesTo(largest int32, how model.Normalization, weight int64) []int64 {
	if largest > tabulated || int(largest) > len(e.scan.slots) {
		return nil
	}
	if e.scan.shares == nil {
		e.scan.shares = make([]int64, tabulated+1)
	}
	shares := e.scan.shares[:largest+1]
	for raw := range shares {
		shares[raw] = normalize(how, int32(raw), largest) * weight
	}
	return shares
}

// compile readies the pod's filters for being asked about single nodes.
func (e *Engine) compile(p *profile, pod *model.Pod) {
	e.scan.filters, e.scan.firstID = e.scan.filters[:0], p.firstID
	for i, f := range p.Filters {
		var filter compiled.Filter
		need := pod.Needs[i]
		column, isColumn := f.(ColumnFilterer)
		switch {
		case need.IsZero():
		case !isColumn:
			filter = &e.scan.layered[i]
		default:
			if c := e.columns.filters[columnKey{p.firstID + int32(i), need}]; c != nil {
				filter = c.filter
			} else {
				filter = column.CompileFilter(pod)
			}
		}
		e.scan.filters = append(e.scan.filters, filter)
	}
}

// firstObjection asks the compiled filters, in order, about one node. It returns the position and the verdict of the first
// that objects.
func (e *Engine) firstObjection(node state.Node) (filter int, code reason.Code) {
	for i, f := range e.scan.filters {
		if f == nil {
			continue
		}
		e.asked(e.scan.firstID+int32(i), 1)
		if code := f.Filter(node); code != reason.None {
			return i, code
		}
	}
	return 0, reason.None
}

func errOutOfRange(plugin string, score int32) error {
	return fmt.Errorf("applying score defaultWeights on Score plugins: plugin %q returns an invalid score %d, it should in the range of [0, %d] after normalizing",
		plugin, score, MaxScore)
}
