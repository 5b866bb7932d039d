package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/answers/history"
)

// pastLines returns at most two lines with the running scheduler's history of a pending
// pod.
func pastLines(p *history.Past) []string {
	if p == nil {
		return nil
	}
	return nonEmpty(lastAttempt(p) + "\n" + present(p))
}

// lastAttempt describes the result of the last attempt and the event before it.
func lastAttempt(p *history.Past) string {
	if len(p.Kept) == 0 {
		if p.Attempts > 0 {
			return fmt.Sprintf("It was tried %s.", times(p.Attempts))
		}
		return "It was not tried yet."
	}
	last := &p.Kept[len(p.Kept)-1]
	line := fmt.Sprintf("Attempt %d at %s", last.Number, clock(last.At))
	if last.Number == 0 {
		line = "At " + clock(last.At)
	}
	if woken := wokenBy(last.WokenBy, last.WokenFor); woken != "" {
		line += ", after " + woken + ","
	}
	switch {
	case last.BindingFailed != "":
		line += " failed to bind: " + last.BindingFailed
	case last.Helped:
		line += " found " + last.Node
	default:
		line += " failed"
	}
	if last.Evictions > 0 {
		line += fmt.Sprintf("; %s evicted for it from %s", counted(last.Evictions, "pod was", "pods were"), last.Nominated)
		if len(last.Victims) > 0 {
			line += ", such as " + strings.Join(last.Victims[:min(shortVictims, len(last.Victims))], ", ")
		}
	}
	return line + "."
}

// present describes the pod's place in the queue, its reason to wait, and the pods before
// it.
func present(p *history.Past) string {
	line := "Now: " + p.Place
	if x := p.Ahead; x != nil {
		line += ", " + ahead(x)
	}
	if p.AheadUnknown != "" {
		line += ", position in the queue unknown (" + p.AheadUnknown + ")"
	}
	if p.Yields {
		line += fmt.Sprintf(", behind other pods of its priority, because attempts in its namespace are expensive (last attempt: %d ms of work)",
			p.CostUnits/1_000_000)
	}
	if p.Leaving > 0 {
		line += fmt.Sprintf(", until %s gone", counted(p.Leaving, "evicted pod is", "evicted pods are"))
	}
	if len(p.WaitsFor) > 0 {
		var waits []string
		for _, w := range p.WaitsFor {
			waits = append(waits, w.Plugin+": "+strings.Join(w.Events, " "))
		}
		line += ", until an event that may help (" + strings.Join(waits, "; ") + ")"
	} else if len(p.Rejectors) > 0 {
		line += ", by " + strings.Join(p.Rejectors, ", ")
	}
	if p.BackoffEnd != nil {
		line += ", not before " + clock(*p.BackoffEnd)
	}
	if g := p.Group; g != nil {
		line += "; " + heldUp(g)
	}
	return line + "."
}

// ahead describes the pods before a pod.
func ahead(x *history.Ahead) string {
	line := counted(x.Pods, "pod before it", "pods before it")
	if x.AtLeast {
		line = "at least " + line
	}
	if shown := min(shortVictims, len(x.Next)); shown > 0 {
		line += " (" + strings.Join(x.Next[:shown], ", ") + more(" and %d more", x.Pods-shown) + ")"
	}
	return line
}

// heldUp describes what blocks a pod group.
func heldUp(g *history.Group) string {
	parts := []string{fmt.Sprintf("group %s: %s, %s", g.Name, counted(g.Waiting, "waits", "wait"), counted(g.Placed, "has a node", "have a node"))}
	if !g.Exists {
		parts = append(parts, "its object does not exist")
	}
	if g.Missing > 0 {
		parts = append(parts, counted(g.Missing, fmt.Sprintf("of %d members does not exist yet", g.MinCount), fmt.Sprintf("of %d members do not exist yet", g.MinCount)))
	}
	if g.HeldCount > 0 {
		parts = append(parts, counted(g.HeldCount, "is held", "are held")+suchAs(g.Held))
	}
	if g.RejectedCount > 0 {
		parts = append(parts, counted(g.RejectedCount, "was rejected", "were rejected")+suchAs(g.Rejected))
	}
	if g.Gate != "" {
		parts = append(parts, g.Gate+" holds it")
	}
	return strings.Join(parts, "; ")
}

// suchAs names the first of the listed members; the list may be empty.
func suchAs(named []history.Member) string {
	if len(named) == 0 {
		return ""
	}
	return ", such as " + named[0].Pod + " by " + strings.Join(named[0].Plugins, ", ")
}

func wokenBy(event, plugin string) string {
	if event != "" && plugin != "" {
		return event + " for " + plugin
	}
	return event
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// printPlaced prints on one screen why the scheduler placed a pod on its node.
func printPlaced(w io.Writer, a *explain.Explanation) {
	lines := placedLines(a)
	for _, line := range lines[:min(screenLines, len(lines))] {
		fmt.Fprintln(w, cutLine(line))
	}
}

func placedLines(a *explain.Explanation) []string {
	d := a.Decision
	if d == nil {
		return []string{fmt.Sprintf("Pod %s, profile %s: %s. The scheduler has no record of the decision: another scheduler made it, or it was made before this replica led or too long ago.", a.Pod, a.Profile, a.History.Place)}
	}
	lines := []string{fmt.Sprintf("Pod %s, profile %s: on %s, %s attempt, at %s; %d of %d nodes were feasible.", a.Pod, a.Profile, d.Node, ordinal(d.Attempt), clock(d.At), d.Feasible, d.Nodes)}
	if d.NotRecorded != "" {
		lines = append(lines, "Why this node: "+d.NotRecorded+".")
	}
	for _, r := range d.Removed[:min(shortReasons, len(d.Removed))] {
		lines = append(lines, fmt.Sprintf("%7d  removed by %s", r.Nodes, strings.Join(r.Plugins, ", ")))
	}
	for i := range d.Best {
		lines = append(lines, bestLine(&d.Best[i]))
	}
	if tipped := tippedLine(d); tipped != "" {
		lines = append(lines, tipped)
	}
	if d.Attempt > 1 {
		lines = append(lines, lastAttempt(a.History))
	}
	return lines
}

func bestLine(n *history.Node) string {
	var parts []string
	for _, s := range n.Scores {
		parts = append(parts, fmt.Sprintf("%s %d", s.Plugin, s.Score*s.Weight))
	}
	return fmt.Sprintf("%7d  %s: %s", n.Total, n.Name, strings.Join(parts, ", "))
}

// tippedLine describes the difference in score between the chosen node and the second.
func tippedLine(d *history.Decision) string {
	if len(d.Best) < 2 {
		return ""
	}
	lead := d.Best[0].Total - d.Best[1].Total
	if lead == 0 {
		return fmt.Sprintf("%s and %s are equally good: the seed chose.", d.Best[0].Name, d.Best[1].Name)
	}
	var parts []string
	for _, m := range d.Tipped[:min(shortMargins, len(d.Tipped))] {
		parts = append(parts, fmt.Sprintf("%s %+d × %d", m.Plugin, m.Score, m.Weight))
	}
	return fmt.Sprintf("%s leads %s by %d: %s", d.Best[0].Name, d.Best[1].Name, lead, strings.Join(parts, ", "))
}

// ordinal returns first, second, third, 4th and so on.
func ordinal(n int) string {
	switch n {
	case 1:
		return "first"
	case 2:
		return "second"
	case 3:
		return "third"
	}
	suffix := "th"
	if n/10%10 != 1 { // 11th, 12th and 13th
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return fmt.Sprintf("%d%s", n, suffix)
}

// printPast prints the running scheduler's whole history of a pod.
func printPast(out io.Writer, p *history.Past) {
	if p == nil {
		return
	}
	fmt.Fprintf(out, "\nHistory (%s", counted(p.Attempts, "attempt", "attempts"))
	if p.Forgotten {
		fmt.Fprintf(out, "; recorded: %d", p.Numbered())
	}
	fmt.Fprint(out, "):\n")
	if len(p.Kept) > 0 {
		w := printers.GetNewTabWriter(out)
		fmt.Fprint(w, "ATTEMPT\tAT\tWOKEN BY\tFOR\tOUTCOME\tFEASIBLE\tWHY\n")
		for i := range p.Kept {
			a := &p.Kept[i]
			number, feasible := fmt.Sprint(a.Number), fmt.Sprintf("%d of %d", a.Feasible, a.Nodes)
			if a.Number == 0 { // a failed binding, whose attempt is no longer in the history
				number, feasible = "<unknown>", "<unknown>"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", number, clock(a.At), cmp.Or(a.WokenBy, "<unknown>"), cmp.Or(a.WokenFor, "<none>"), outcome(a), feasible, cmp.Or(a.BindingFailed, a.Node, a.Message))
		}
		_ = w.Flush() // the writer below keeps the error
	}
	fmt.Fprintln(out, present(p))
}

func outcome(a *history.Attempt) string {
	switch {
	case a.BindingFailed != "":
		return "binding failed"
	case a.InGroup:
		return a.Outcome + " with its group"
	}
	return a.Outcome
}
