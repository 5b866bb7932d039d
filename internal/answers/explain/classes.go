package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// NodeClass is a class of equal nodes of an explanation. They have the same verdicts and
// reasons of every plugin or, if feasible, the same scores.
type NodeClass struct {
	Nodes    int
	Feasible bool
	// Rejections apply to each of the nodes. Scores and Total are set if the nodes were
	// scored.
	Rejections []Rejection
	LeftOutBy  []string
	Scores     []Score
	Total      *int64
	// Examples are the first nodes by name.
	Examples []string
}

// NodeClassesOf groups equal nodes. Feasible classes come first, then the highest total,
// then the class with the most nodes.
func NodeClassesOf(a *Explanation) []NodeClass {
	at := map[string]int{}
	var classes []NodeClass
	var key strings.Builder
	for i := range a.Nodes {
		node := &a.Nodes[i]
		key.Reset()
		writeClassKey(&key, node)
		n, ok := at[key.String()]
		if !ok {
			n = len(classes)
			at[strings.Clone(key.String())] = n
			classes = append(classes, NodeClass{Feasible: node.Feasible, Rejections: node.Rejections, LeftOutBy: node.LeftOutBy, Scores: node.Scores, Total: node.Total})
		}
		p := &classes[n]
		if p.Nodes++; len(p.Examples) < reasonExamples {
			p.Examples = append(p.Examples, node.Name)
		}
	}
	slices.SortStableFunc(classes, func(a, b NodeClass) int {
		return cmp.Or(-compareBool(a.Feasible, b.Feasible), cmp.Compare(totalOf(b.Total), totalOf(a.Total)), cmp.Compare(b.Nodes, a.Nodes))
	})
	return classes
}

func writeClassKey(key *strings.Builder, node *Node) {
	for i := range node.Rejections {
		r := &node.Rejections[i]
		key.WriteString(r.Plugin)
		for _, text := range r.Reasons {
			key.WriteByte('|')
			key.WriteString(text)
		}
		key.WriteByte('\n')
	}
	for _, plugin := range node.LeftOutBy {
		key.WriteString(plugin)
		key.WriteByte('\n')
	}
	for i := range node.Scores {
		fmt.Fprintf(key, "%d ", node.Scores[i].Score)
	}
	fmt.Fprint(key, node.Feasible)
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func totalOf(total *int64) int64 {
	if total == nil {
		return 0
	}
	return *total
}

// Margin is a plugin's contribution to the lead of one node over another: the difference
// of its weighted scores.
type Margin struct {
	Plugin string
	Points int64
}

// Tipped returns the lead of the best node over the second best, and the plugins that
// contribute to it, the largest contribution first. by is nil unless both nodes were
// scored.
func (sum *Summary) Tipped() (lead int64, by []Margin) {
	if len(sum.Best) < 2 || sum.Best[0].Total == nil || sum.Best[1].Total == nil {
		return 0, nil
	}
	first, second := &sum.Best[0], &sum.Best[1]
	for i := range min(len(first.Scores), len(second.Scores)) {
		if points := (first.Scores[i].Score - second.Scores[i].Score) * first.Scores[i].Weight; points != 0 {
			by = append(by, Margin{first.Scores[i].Plugin, points})
		}
	}
	lead = *first.Total - *second.Total
	slices.SortStableFunc(by, func(a, b Margin) int { return cmp.Compare(max(b.Points, -b.Points), max(a.Points, -a.Points)) })
	return lead, by
}
