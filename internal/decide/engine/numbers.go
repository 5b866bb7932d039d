package engine

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	"github.com/berth-scheduler/berth/internal/plugin"
)

// numbers number the plugins of all profiles. Profiles that are alike are built with the
// same plugins, and so share their columns and rejections.
type numbers struct {
	plugins map[plugin.Plugin]int32
	scores  map[*plugin.Score]int32
	lists   map[string]int32 // by the numbers of the plugins
	next    int32
}

func newNumbers() *numbers {
	return &numbers{plugins: map[plugin.Plugin]int32{}, scores: map[*plugin.Score]int32{}, lists: map[string]int32{}}
}

// profile numbers the plugins of a profile. first is the position of its first plugin
// among the plugins of all profiles.
func (n *numbers) profile(p *plugin.Profile, first int32) *profile {
	own := &profile{Profile: p, first: first}
	for i, f := range p.Filters {
		own.ids = append(own.ids, n.plugin(f))
		reader, _ := f.(nodeReader)
		own.readers = append(own.readers, reader)
		count, ok := f.(plugin.CountFilter)
		if own.counts = append(own.counts, count); ok {
			own.counting = append(own.counting, i)
		}
		turn, ok := f.(plugin.TurnFilter)
		if own.turn = append(own.turn, turn); ok {
			own.turnFilters = append(own.turnFilters, i)
		}
		if stateful, ok := f.(plugin.StateFilter); ok {
			own.stateful = append(own.stateful, filterAt[plugin.StateFilter]{i, stateful})
		}
		if varying, ok := f.(plugin.VaryingFilter); ok {
			own.varying = append(own.varying, filterAt[plugin.VaryingFilter]{i, varying})
		}
	}
	slices.SortStableFunc(own.stateful, func(a, b filterAt[plugin.StateFilter]) int {
		return cmp.Compare(p.PreFilterAt(a.filter.Name()), p.PreFilterAt(b.filter.Name()))
	})
	own.filters = n.list(own.ids)
	for i := range p.Scores {
		own.ids = append(own.ids, n.score(p.Scores[i].Score))
		own.scorers = append(own.scorers, newScorer(p.Scores[i].Score))
	}
	return own
}

// plugin returns the number of a plugin, the same for equal plugins. Plugins that are not
// comparable are all different.
func (n *numbers) plugin(p plugin.Plugin) int32 {
	comparable := reflect.ValueOf(p).Comparable()
	if comparable {
		if id, ok := n.plugins[p]; ok {
			return id
		}
	}
	n.next++
	if comparable {
		n.plugins[p] = n.next
	}
	return n.next
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
