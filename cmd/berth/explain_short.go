package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/answers/advice"
	"github.com/berth-scheduler/berth/internal/answers/explain"
)

// The short form of an explanation has at most screenLines lines. The verdict comes
// first, then as many details as fit.
const (
	screenLines     = 10
	shortReasons    = 3
	shortAdvice     = 3
	shortBest       = 3
	shortMissing    = 2
	shortMargins    = 4
	shortVictims    = 3
	shortLineLength = 220
)

// printShort prints an explanation on one screen.
func printShort(w io.Writer, a *explain.Explanation, sum *explain.Summary) {
	var head, tail []string
	var verdict strings.Builder
	printVerdictLine(&verdict, a, sum)
	head = append(head, strings.TrimSuffix(verdict.String(), "\n"))
	if a.Gated != "" {
		head = append(head, "It is gated: "+strings.TrimSpace(sentence(a.Gated)))
	}
	if a.Error != "" {
		head = append(head, "Scheduling error: "+a.Error)
	}
	if a.Message != "" && len(a.Nodes) == 0 {
		head = append(head, a.Message)
	}
	if p := a.Preemption; p != nil {
		var victims []string
		for i := range p.Victims {
			victims = append(victims, p.Victims[i].Pod)
		}
		head = append(head, fmt.Sprintf("Preemption would nominate it to %s and evict %s.", p.Node, advice.Few(victims, shortVictims)))
	}
	head = append(head, pastLines(a.History)...)
	tail = append(tail, adviceLines(a.Advice)...)
	tail = append(tail, bestLines(sum)...)
	reasons := reasonLines(sum)
	most := min(shortReasons, screenLines-len(head)-len(tail))
	// The screen has room for one more.
	if a.Preemption == nil && a.Gated == "" && a.Error == "" && a.Advice != nil {
		most = min(shortReasons+1, screenLines-len(head)-len(tail))
	}
	if len(reasons) > most && most > 0 {
		rest := 0
		for i := most - 1; i < len(sum.Reported); i++ {
			rest += sum.Reported[i].Nodes
		}
		left := len(reasons) - most + 1
		reasons = append(reasons[:most-1:most-1], fmt.Sprintf("%7d  for %d further reasons (-o wide shows them)", rest, left))
	}
	lines := slices.Concat(head, reasons[:min(len(reasons), max(0, most))], tail)
	for _, line := range lines[:min(screenLines, len(lines))] {
		fmt.Fprintln(w, cutLine(line))
	}
}

// cutLine shortens a line that would wrap several times on a screen.
func cutLine(line string) string {
	if runes := []rune(line); len(runes) > shortLineLength {
		return string(runes[:shortLineLength-1]) + "…"
	}
	return line
}

// reasonLines lists the reasons of rejections with their numbers of nodes, and the
// shortage on the nearest node.
func reasonLines(sum *explain.Summary) []string {
	lines := make([]string, 0, len(sum.Reported))
	for i := range sum.Reported {
		r := &sum.Reported[i]
		line := fmt.Sprintf("%7d  ", r.Nodes)
		if r.Plugin != "" {
			line += r.Plugin + ": "
		}
		line += strings.Join(r.Reasons, ", ")
		if near := nearest(sum, r); near != "" {
			line += " (" + near + ")"
		} else {
			examples := r.Examples[:min(2, len(r.Examples))]
			line += " (" + strings.Join(examples, ", ") + more(" and %d more", r.Nodes-len(examples)) + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// nearest describes the shortage on the node that lacks least, among the nodes that only
// this plugin rejects. It returns "" if that adds nothing to the reason.
func nearest(sum *explain.Summary, r *explain.Reported) string {
	for i := range sum.Near {
		near := &sum.Near[i]
		if near.Plugin != r.Plugin || len(near.Examples) == 0 || !slices.Equal(near.Examples[0].Reasons, r.Reasons) {
			continue
		}
		n := &near.Examples[0]
		var why []string
		for j := range n.Short {
			why = append(why, short(&n.Short[j]))
		}
		if why = append(why, n.InTheWay...); len(why) > 0 {
			return n.Name + " is nearest: " + strings.Join(why, "; ")
		}
	}
	return ""
}

// adviceLines lists the suggestions, the smallest change first.
func adviceLines(found *advice.Advice) []string {
	if found == nil {
		return nil
	}
	var lines []string
	for _, m := range found.Missing[:min(shortMissing, len(found.Missing))] {
		lines = append(lines, "Missing: "+m+".")
	}
	if len(found.Suggestions) == 0 {
		return append(lines, "Nothing that was tried would help"+cutShort(found)+".")
	}
	lines = append(lines, "Changes that would help, each verified"+cutShort(found)+":")
	shown := min(shortAdvice, len(found.Suggestions))
	for _, i := range differentFirst(found.Suggestions)[:shown] {
		lines = append(lines, "  "+suggestion(&found.Suggestions[i]))
	}
	if rest := len(found.Suggestions) - shown; rest > 0 {
		lines = append(lines, fmt.Sprintf("  %d more with -o wide", rest))
	}
	return lines
}

// differentFirst returns indexes of suggestions. The first suggestion of each kind comes
// before the others.
func differentFirst(all []advice.Suggestion) []int {
	var firsts, others []int
	seen := map[advice.Kind]bool{}
	for i := range all {
		if kind := all[i].Changes[0].Kind; seen[kind] && len(all[i].Changes) == 1 {
			others = append(others, i)
		} else {
			seen[kind] = true
			firsts = append(firsts, i)
		}
	}
	return append(firsts, others...)
}

func cutShort(found *advice.Advice) string {
	if found.CutShort {
		return " (the search was cut short)"
	}
	return ""
}

// suggestion formats a suggestion as a line.
func suggestion(s *advice.Suggestion) string {
	var changes []string
	for i := range s.Changes {
		changes = append(changes, s.Changes[i].Text)
	}
	line := strings.Join(changes, ", and ") + " → " + s.Node
	if s.Pending > 0 {
		line += fmt.Sprintf("; %d of %d others of its owner would follow", s.Follow, s.Pending)
	}
	return line
}

// printGroupShort prints on one screen what blocks a pod group, and what would let it
// start.
func printGroupShort(w io.Writer, g *explain.Group) {
	var text strings.Builder
	printGroupVerdict(&text, g)
	if b := g.Blocker; b != nil {
		fmt.Fprintln(&text, blockerLine(b, true))
		for _, line := range reasonLines(&b.Summary)[:min(shortReasons-1, len(b.Summary.Reported))] {
			fmt.Fprintln(&text, line)
		}
	}
	var help strings.Builder
	printHelp(&help, g)
	lines := append(nonEmpty(text.String()), nonEmpty(help.String())...)
	for _, line := range lines[:min(screenLines-1, len(lines))] { // one line is for the pod
		fmt.Fprintln(w, cutLine(line))
	}
}

// nonEmpty returns the lines of a text that are not empty.
func nonEmpty(text string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return line == "" })
}

// bestLines lists the best nodes, and the difference in score between the first and the
// second.
func bestLines(sum *explain.Summary) []string {
	if len(sum.Best) == 0 || sum.Best[0].Total == nil {
		return nil
	}
	var lines []string
	for i := range sum.Best[:min(shortBest, len(sum.Best))] {
		n := &sum.Best[i]
		var parts []string
		for _, s := range n.Scores {
			parts = append(parts, fmt.Sprintf("%s %d", s.Plugin, s.Score*s.Weight))
		}
		lines = append(lines, fmt.Sprintf("%7d  %s: %s", *n.Total, n.Name, strings.Join(parts, ", ")))
	}
	if lead, by := sum.Tipped(); lead > 0 {
		var parts []string
		for _, m := range by[:min(shortMargins, len(by))] {
			parts = append(parts, fmt.Sprintf("%s %+d", m.Plugin, m.Points))
		}
		lines = append(lines, fmt.Sprintf("%s leads %s by %d: %s", sum.Best[0].Name, sum.Best[1].Name, lead, strings.Join(parts, ", ")))
	}
	return lines
}

// printAdvice prints all suggestions.
func printAdvice(w io.Writer, found *advice.Advice) {
	if found == nil {
		return
	}
	fmt.Fprintf(w, "\nChanges that would help (decisions made: %d%s):\n", found.Decisions, cutShort(found))
	for _, m := range found.Missing {
		fmt.Fprintf(w, "  missing: %s\n", m)
	}
	for i := range found.Suggestions {
		fmt.Fprintf(w, "  %s\n", suggestion(&found.Suggestions[i]))
	}
	if len(found.Suggestions) == 0 {
		fmt.Fprintln(w, "  nothing that was tried")
	}
}

// classLines limits the printed classes.
const classLines = 50

// printClasses prints each class of equal nodes as one line.
func printClasses(w io.Writer, classes []explain.NodeClass) {
	if len(classes) == 0 {
		return
	}
	fmt.Fprintln(w, "\nNodes that are equal in all of this:")
	for i := range classes[:min(classLines, len(classes))] {
		p := &classes[i]
		var said []string
		for j := range p.Rejections {
			r := &p.Rejections[j]
			said = append(said, cmp.Or(r.Plugin, strings.Join(p.LeftOutBy, ", "), "(not evaluated)")+": "+strings.Join(r.Reasons, ", "))
		}
		for _, s := range p.Scores {
			said = append(said, fmt.Sprintf("%s %d", s.Plugin, s.Score*s.Weight))
		}
		if p.Total != nil {
			said = append([]string{fmt.Sprintf("total %d", *p.Total)}, said...)
		} else if p.Feasible {
			said = append(said, "feasible")
		}
		fmt.Fprintf(w, "%7d  %s (%s%s)\n", p.Nodes, strings.Join(said, "; "), strings.Join(p.Examples, ", "), more(" and %d more", p.Nodes-len(p.Examples)))
	}
	fmt.Fprint(w, more("and %d more groups of nodes\n", len(classes)-classLines))
}
