package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/berth-scheduler/berth/internal/answers/explain"
)

// membersShown is how many members of a group the table lists.
const membersShown = 20

// printGroup prints a few short tables about a pod group.
func printGroup(w io.Writer, g *explain.Group) {
	printGroupVerdict(w, g)
	printMembers(w, g)
	for i, b := range blockersOf(g) {
		fmt.Fprintf(w, "\n%s\n", blockerLine(b, i == 0))
		printFunnel(w, &b.Summary)
		printReasons(w, b.Summary.Reasons)
		for i := range b.Summary.Near {
			printNear(w, &b.Summary.Near[i])
		}
		if len(b.Demands) > 0 {
			fmt.Fprintln(w, "\nEach of these alone would make a node feasible there:")
		}
		for i := range b.Demands {
			fmt.Fprintf(w, "  %s\n", suggestion(&b.Demands[i]))
		}
	}
	printHelp(w, g)
}

// blockersOf returns the members that block a group, the first of each kind.
func blockersOf(g *explain.Group) []*explain.Blocker {
	var all []*explain.Blocker
	if g.Blocker != nil {
		all = append(all, g.Blocker)
	}
	for i := range g.MoreBlockers {
		all = append(all, &g.MoreBlockers[i])
	}
	return all
}

// blockerLine names a member that blocks a group.
func blockerLine(b *explain.Blocker, first bool) string {
	in, what := "", "is another member without a feasible node, after the members before it are placed:"
	if first {
		what = "is the first member without a feasible node, after the members before it are placed:"
	}
	if b.Domain != "" {
		in = " in " + b.Domain
	}
	who := b.Pod
	if b.Alike > 1 {
		who += fmt.Sprintf(", one of %d equal members,", b.Alike)
	}
	return who + " " + strings.Replace(what, "no node", "no node"+in, 1)
}

func printGroupVerdict(w io.Writer, g *explain.Group) {
	fmt.Fprintf(w, "PodGroup %s", g.Name)
	switch g.Policy {
	case "gang":
		fmt.Fprintf(w, ", a gang with minCount %d", g.MinCount)
	case "basic":
		fmt.Fprint(w, ", a group without minCount")
	}
	fmt.Fprintf(w, ": %s, %s.\n", counted(g.Running, "member runs", "members run"), counted(g.Waiting, "waits", "wait"))
	if g.Held != "" {
		fmt.Fprintf(w, "It is gated: %s\n", sentence(g.Held))
	}
	if len(g.HeldMembers) > 1 {
		for _, m := range g.HeldMembers[:min(membersShown, len(g.HeldMembers))] {
			fmt.Fprintf(w, "  %s: %s: %s\n", m.Pod, m.Plugin, m.Reason)
		}
		fmt.Fprint(w, more("  and %d more\n", len(g.HeldMembers)-membersShown))
	}
	if g.Policy == "" || g.Waiting == 0 {
		return
	}
	would := "It would start"
	switch started := g.Running >= g.MinCount; {
	case started && g.Starts:
		would = "More of it would start"
	case started:
		would = "No more of it would start"
	case !g.Starts:
		would = "It would not start"
	}
	if g.Held != "" {
		would = "If it were not gated, " + strings.ToLower(would[:1]) + would[1:]
	}
	fmt.Fprintf(w, "%s: %d of %d waiting members can be placed", would, g.Fit, g.Waiting)
	switch {
	case g.Room != nil && *g.Room >= explain.MaxRoom:
		fmt.Fprintf(w, ", and at least %d more like the last one", explain.MaxRoom)
	case g.Room != nil:
		fmt.Fprintf(w, ", and %d more like the last one", *g.Room)
	}
	fmt.Fprint(w, ".\n")
	if t := g.Tree; t != nil {
		printTree(w, t)
	}
	if c := g.Condition; c != nil {
		fmt.Fprintf(w, "Condition: %s=%s (%s)", c.Type, c.Status, c.Reason)
		if c.Message != "" {
			fmt.Fprintf(w, ": %s", c.Message)
		}
		fmt.Fprintln(w)
	}
}

// printTree prints the result for each group of a tree that is scheduled as one.
func printTree(w io.Writer, t *explain.Tree) {
	would := "would start"
	if !t.Starts {
		would = "would not start"
	}
	fmt.Fprintf(w, "It belongs to the tree of CompositePodGroup %s, which is scheduled as a whole and %s:\n", t.Name, would)
	for i := range t.Groups[:min(membersShown, len(t.Groups))] {
		of := &t.Groups[i]
		fmt.Fprintf(w, "  %s: %s, %d of %d waiting members would be placed", of.Name, counted(of.Running, "member runs", "members run"), of.Fit, of.Waiting)
		if of.Message != "" {
			fmt.Fprintf(w, ": %s", of.Message)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, more("  and %d more\n", max(0, len(t.Groups)-membersShown)+t.More))
	if len(t.WouldStart) > 0 {
		fmt.Fprint(w, "Each of these alone would let the tree start, if no member were held back:\n")
	}
	printHelps(w, t.WouldStart, t.Unfinished)
}

// sentence ends a text with a full stop, unless it ends with a question mark.
func sentence(text string) string {
	if strings.HasSuffix(text, "?") {
		return text
	}
	return text + "."
}

// counted returns "1 member runs", "2 members run".
func counted(n int, one, more string) string {
	if n == 1 {
		return fmt.Sprintf("1 %s", one)
	}
	return fmt.Sprintf("%d %s", n, more)
}

// printMembers lists the pending members, at most membersShown.
func printMembers(out io.Writer, g *explain.Group) {
	if len(g.Members) == 0 {
		return
	}
	w := printers.GetNewTabWriter(out)
	defer w.Flush()
	fmt.Fprint(w, "\nMEMBER\tNODE\tMESSAGE\n")
	for i := range g.Members[:min(membersShown, len(g.Members))] {
		m := &g.Members[i]
		fmt.Fprintf(w, "%s\t%s\t%s\n", m.Pod, cmp.Or(m.Node, "<none>"), m.Message)
	}
	fmt.Fprint(w, more("and %d more\n", len(g.Members)-membersShown))
}

func printHelp(w io.Writer, g *explain.Group) {
	switch {
	case len(g.WouldStart) == 0:
	case len(g.HeldMembers) > 0:
		fmt.Fprint(w, "\nIf no member were held back, each of these alone would let it start:\n")
	case g.Running >= g.MinCount:
		fmt.Fprint(w, "\nEach of these alone would let more of it start:\n")
	default:
		fmt.Fprint(w, "\nEach of these alone would let it start:\n")
	}
	printHelps(w, g.WouldStart, g.Unfinished)
}

func printHelps(w io.Writer, helps []explain.Help, unfinished bool) {
	for _, h := range helps {
		switch {
		case h.MinCount > 0:
			fmt.Fprintf(w, "  minCount %d\n", h.MinCount)
		case h.MinGroupCount > 0:
			fmt.Fprintf(w, "  minGroupCount %d\n", h.MinGroupCount)
		case h.Change != nil:
			of := h.Like
			if h.Alike > 1 {
				of += fmt.Sprintf(" and %d like it", h.Alike-1)
			}
			fmt.Fprintf(w, "  of %s: %s\n", of, h.Change.Text)
		case h.Members > 0:
			fmt.Fprintf(w, "  %s like %s\n", counted(h.Members, "more member", "more members"), h.Like)
		default:
			fmt.Fprintf(w, "  %s like %s\n", counted(h.Nodes, "more node", "more nodes"), h.Like)
		}
	}
	if unfinished {
		fmt.Fprint(w, "\nThe search for what would let it start was cut short.\n")
	}
}
