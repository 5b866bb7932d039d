package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/cli-runtime/pkg/printers"

	"github.com/berth-scheduler/berth/internal/answers/explain"
)

// tablePrinter prints a few short tables for each pod.
type tablePrinter struct {
	w        io.Writer // keeps the first error, as bufio.Writer does
	snapshot *explain.Snapshot
	wide     bool // everything, instead of one screen
	printed  int
	equal    *equalAnswers // nil if each pod is printed
	quiet    bool          // prints nothing without pods
}

func newTablePrinter(w io.Writer, snapshot *explain.Snapshot, wide bool) *tablePrinter {
	return &tablePrinter{w: w, snapshot: snapshot, wide: wide}
}

func (p *tablePrinter) print(a *explain.Explanation) error {
	sum := p.snapshot.Summarize(a)
	p.printed++
	if p.equal != nil {
		var text strings.Builder
		printScreen(&text, a, &sum)
		p.equal.add(a, &sum, text.String())
		return nil
	}
	if p.printed > 1 {
		fmt.Fprint(p.w, "\n\n")
	}
	if !p.wide {
		printScreen(p.w, a, &sum)
		return nil
	}
	if a.Group != nil {
		printGroup(p.w, a.Group)
		fmt.Fprint(p.w, "\n\n")
	}
	printVerdict(p.w, a, &sum)
	printPreemption(p.w, a)
	printClaims(p.w, sum.Claims)
	printFunnel(p.w, &sum)
	printReasons(p.w, sum.Reasons)
	for i := range sum.Near {
		printNear(p.w, &sum.Near[i])
	}
	if len(sum.Best) > 0 {
		printBest(p.w, &sum)
	}
	printPast(p.w, a.History)
	printAdvice(p.w, a.Advice)
	printClasses(p.w, explain.NodeClassesOf(a))
	return nil
}

// printScreen prints an explanation on one screen: of a pod, or of its group.
func printScreen(w io.Writer, a *explain.Explanation, sum *explain.Summary) {
	if a.Group == nil {
		printShort(w, a, sum)
		return
	}
	printGroupShort(w, a.Group)
	printVerdictLine(w, a, sum)
	if lines := pastLines(a.History); len(lines) > 0 {
		fmt.Fprintln(w, cutLine(lines[len(lines)-1]))
	}
}

func (p *tablePrinter) end() error {
	if p.equal != nil {
		p.equal.print(p.w)
	}
	if p.printed > 0 || p.quiet {
		return nil
	}
	_, err := fmt.Fprintln(p.w, noneListed(len(p.snapshot.Pending())))
	return err
}

// noneListed is the line in place of an empty list of pods. Pending pods may exist that
// are not selected.
func noneListed(pending int) string {
	if pending > 0 {
		return "No pending pod is selected."
	}
	return "No pod is pending."
}

// printVerdictLine prints the number of feasible nodes and the chosen node.
func printVerdictLine(w io.Writer, a *explain.Explanation, sum *explain.Summary) {
	fmt.Fprintf(w, "Pod %s, profile %s: %d of %d nodes are feasible", a.Pod, a.Profile, sum.Feasible, sum.Nodes)
	switch {
	case sum.Taken == "":
		fmt.Fprint(w, ".\n")
	case sum.Nominated:
		fmt.Fprintf(w, "; it would go to %s, which it is nominated for.\n", sum.Taken)
	case sum.Equals > 1:
		fmt.Fprintf(w, "; it would go to %s, one of %d equally good nodes.\n", sum.Taken, sum.Equals)
	default:
		fmt.Fprintf(w, "; it would go to %s.\n", sum.Taken)
	}
}

func printVerdict(w io.Writer, a *explain.Explanation, sum *explain.Summary) {
	printVerdictLine(w, a, sum)
	if a.Gated != "" {
		fmt.Fprintf(w, "It is gated: %s The rest is computed without the gate.\n", sentence(a.Gated))
	}
	if a.Error != "" {
		fmt.Fprintf(w, "Scheduling error: %s\n", a.Error)
	}
	if a.Message != "" { // preemption's text comes next
		fmt.Fprintln(w, strings.TrimSuffix(a.Message, " "+a.PostFilterMessage))
	}
}

// printPreemption prints the victims and the node of preemption, or why it does not help.
func printPreemption(out io.Writer, a *explain.Explanation) {
	text, preempts := strings.CutPrefix(a.PostFilterMessage, "preemption: ")
	p := a.Preemption
	switch {
	case p != nil:
		fmt.Fprintf(out, "\nPreemption would nominate it to %s and evict:\n", p.Node)
	case !preempts:
		return
	case strings.HasPrefix(text, "not eligible"):
		fmt.Fprintf(out, "The pod does not preempt: %s\n", text)
		return
	default:
		fmt.Fprintf(out, "Preemption does not help: %s\n", text)
		return
	}
	w := printers.GetNewTabWriter(out)
	fmt.Fprint(w, "VICTIM\tPRIORITY\tSTARTED\tOWNER\tSTATE\n")
	for i := range p.Victims {
		v := &p.Victims[i]
		started, owner, state := "<not yet>", cmp.Or(v.Owner, "<none>"), ""
		if v.Started != nil {
			started = v.Started.UTC().Format(time.RFC3339)
		}
		if v.Terminating {
			state = "terminating"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", v.Pod, v.Priority, started, owner, state)
	}
	w.Flush()
	for _, b := range p.ViolatedBudgets {
		fmt.Fprintf(out, "This violates the PodDisruptionBudget %s: it allows %d, and %d would be evicted.\n", b.Budget, b.Allowed, b.Victims)
	}
	if len(p.ClearedNominations) > 0 {
		fmt.Fprintf(out, "These pods of lower priority would lose their nomination to %s: %s\n", p.Node, strings.Join(p.ClearedNominations, ", "))
	}
}

func printClaims(out io.Writer, claims []explain.Claim) {
	if len(claims) == 0 {
		return
	}
	w := printers.GetNewTabWriter(out)
	defer w.Flush()
	fmt.Fprint(w, "\nCLAIM\tCLASS\tREQUEST\tSTATE\n")
	for _, c := range claims {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.Name, c.Class, c.Request, c.State)
	}
}

func printFunnel(out io.Writer, sum *explain.Summary) {
	if len(sum.Funnel) == 0 {
		return
	}
	w := printers.GetNewTabWriter(out)
	defer w.Flush()
	fmt.Fprintf(w, "\nPLUGIN\tREJECTS\tAS THE FIRST\tLEAVES\n(all nodes)\t\t\t%d\n", sum.Nodes)
	for _, s := range sum.Funnel {
		plugin := s.Plugin
		if plugin == "" {
			plugin = "(not evaluated)"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", plugin, s.Rejects, s.First, s.Left)
	}
}

func printReasons(out io.Writer, reasons []explain.Reason) {
	if len(reasons) == 0 {
		return
	}
	w := printers.GetNewTabWriter(out)
	defer w.Flush()
	fmt.Fprint(w, "\nNODES\tREASON\tEXAMPLES\n")
	for _, r := range reasons {
		fmt.Fprintf(w, "%d\t%s\t%s%s\n", r.Nodes, r.Text, strings.Join(r.Examples, ", "), more(", and %d more", r.Nodes-len(r.Examples)))
	}
}

func printNear(w io.Writer, near *explain.Near) {
	fmt.Fprintf(w, "\nRejected by %s alone: %d\n", near.Plugin, near.Nodes)
	for i := range near.Examples {
		n := &near.Examples[i]
		why := n.Reasons
		if len(n.Short) > 0 {
			why = nil
			for j := range n.Short {
				why = append(why, short(&n.Short[j]))
			}
		}
		if len(n.InTheWay) > 0 {
			why = n.InTheWay
		}
		fmt.Fprintf(w, "  %s: %s\n", n.Name, strings.Join(why, "; "))
	}
	fmt.Fprint(w, more("  and %d more\n", near.Nodes-len(near.Examples)))
}

// short describes a shortage. Amounts that would be rounded to the same text are exact.
func short(s *explain.Shortage) string {
	asks, free := amount(s.Resource, s.Asks), amount(s.Resource, s.Free)
	if asks == free {
		asks, free = s.Asks.AsDec().String(), s.Free.AsDec().String()
	}
	return fmt.Sprintf("%s: needs %s, free %s of %s", s.Resource, asks, free, amount(s.Resource, s.Allocatable))
}

func printBest(out io.Writer, sum *explain.Summary) {
	if sum.Best[0].Total == nil {
		names := make([]string, len(sum.Best))
		for i := range sum.Best {
			names[i] = sum.Best[i].Name
		}
		fmt.Fprintf(out, "\nNot scored: %s%s\n", strings.Join(names, ", "), more(", and %d more", sum.Feasible-len(names)))
		return
	}
	w := printers.GetNewTabWriter(out)
	defer w.Flush()
	fmt.Fprint(w, "\nBEST NODES\tTOTAL")
	for _, s := range sum.Best[0].Scores {
		fmt.Fprintf(w, "\t%s x%d", s.Plugin, s.Weight)
	}
	fmt.Fprintln(w)
	for i := range sum.Best {
		n := &sum.Best[i]
		fmt.Fprintf(w, "%s\t%d", n.Name, *n.Total)
		for _, s := range n.Scores {
			fmt.Fprintf(w, "\t%d", s.Score)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprint(w, more("and %d more\n", sum.Feasible-len(sum.Best)))
}

// more returns a note that a list was cut, or "" for a complete list.
func more(format string, n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(format, n)
}
