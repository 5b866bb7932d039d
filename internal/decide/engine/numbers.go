package engine

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/internal/plugin"
)

// numbers number the plugins of all profiles. Profiles that are alike are built with the
// same plugins, and so share their columns and rejections.
type numbers struct {
	filters map[*plugin.Filter]int32
	scores  map[*plugin.Score]int32
	lists   map[string]int32 // by the numbers of the plugins
	next    int32
}

func newNumbers() *numbers {
	return &numbers{filters: map[*plugin.Filter]int32{}, scores: map[*plugin.Score]int32{}, lists: map[string]int32{}}
}

// profile numbers the plugins of a profile. first is the position of its first plugin
// among the plugins of all profiles.
func (n *numbers) profile(p *plugin.Profile, first int32) *profile {
	own := &profile{Profile: p, first: first}
	for i, f := range p.Filters {
		own.ids = append(own.ids, n.filter(f))
		switch {
		case f.Count != nil:
			own.counting = append(own.counting, i)
		case f.Turn != nil:
			own.turnFilters = append(own.turnFilters, i)
		case f.NeedIn != nil:
			own.stateful = append(own.stateful, i)
		case f.Varying != nil:
			own.varying = append(own.varying, i)
		}
	}
	slices.SortStableFunc(own.stateful, func(a, b int) int {
		return cmp.Compare(p.PreFilterAt(p.Filters[a].Name), p.PreFilterAt(p.Filters[b].Name))
	})
	own.filters = n.list(own.ids)
	for i := range p.Scores {
		own.ids = append(own.ids, n.score(p.Scores[i].Score))
		own.scorers = append(own.scorers, newScorer(p.Scores[i].Score))
	}
	return own
}

// filter returns the number of a Filter plugin.
func (n *numbers) filter(p *plugin.Filter) int32 {
	if _, ok := n.filters[p]; !ok {
		n.next++
		n.filters[p] = n.next
	}
	return n.filters[p]
}

// score returns the number of a Score plugin.
func (n *numbers) score(p *plugin.Score) int32 {
	if _, ok := n.scores[p]; !ok {
		n.next++
		n.scores[p] = n.next
	}
	return n.scores[p]
}

// list returns the number of a list of plugins.
func (n *numbers) list(ids []int32) int32 {
	text := fmt.Sprint(ids)
	if _, ok := n.lists[text]; !ok {
		n.lists[text] = int32(len(n.lists))
	}
	return n.lists[text]
}
