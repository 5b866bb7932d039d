package report

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Table writes the summaries as text: the kinds of pods, the workloads and the restarts,
// if present.
func Table(w io.Writer, summaries []Summary, notRun []NotRun) error {
	var shapes, workloads, restarts []Summary
	for _, s := range summaries {
		switch s.Case.Kind {
		case "workload":
			workloads = append(workloads, s)
		case "restart":
			restarts = append(restarts, s)
		default:
			shapes = append(shapes, s)
		}
	}
	p := &printer{w: w}
	p.shapes(shapes)
	p.workloads(workloads)
	p.parked(workloads)
	p.restarts(restarts)
	p.failures(summaries)
	p.notRun(notRun)
	return p.err
}

// printer writes parts with an empty line between them, until the first error.
type printer struct {
	w     io.Writer
	parts int
	err   error
}

func (p *printer) print(text string) {
	if p.err != nil || text == "" {
		return
	}
	if p.parts++; p.parts > 1 {
		text = "\n" + text
	}
	_, p.err = io.WriteString(p.w, text)
}

// columns aligns rows below a header: the first cell on the left, figures on the right. A
// row of one cell is a title for the following rows, and does not affect the widths.
func columns(rows [][]string) string {
	wide := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			if len(row) > 1 {
				wide[i] = max(wide[i], utf8.RuneCountInString(row[i]))
			}
		}
	}
	var b strings.Builder
	for _, row := range rows {
		if len(row) == 1 {
			b.WriteString(row[0] + "\n")
			continue
		}
		line := fmt.Sprintf("%-*s", wide[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("  %*s", wide[i+1], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// indent is the indentation of contenders below a title.
const indent = "  "

func (p *printer) shapes(summaries []Summary) {
	p.compared("SHAPE", summaries, func(c Case) string {
		return fmt.Sprintf("%s: %s nodes, %s pods running, %s pending", c.Name, count(c.Nodes), count(c.Before), count(c.Pods))
	})
}

func (p *printer) workloads(summaries []Summary) {
	p.compared("WORKLOAD", summaries, func(c Case) string {
		title := fmt.Sprintf("%s: %s nodes, %s pods before, %s created", c.Name, count(c.Nodes), count(c.Before), count(c.Pods))
		if c.Floor > 0 {
			title += ", floor " + count(c.Floor)
		}
		return title
	})
}

// compared writes the cases of one kind, each below a title, with the figures of every
// contender.
func (p *printer) compared(kind string, summaries []Summary, title func(c Case) string) {
	if len(summaries) == 0 {
		return
	}
	rows := [][]string{{
		kind, "PODS/S", "BINDER", "KUBE-S.", "+EVENTS", "BINDER", "KUBE-S.", "CPU/POD", "KUBE-S.", "API CPU/POD", "FIRST", "P50", "P99", "MEMORY",
	}}
	for _, s := range summaries {
		rows = append(rows, []string{title(s.Case)})
		for _, c := range s.Contenders {
			m := c.Median
			rows = append(rows, []string{
				indent + c.Name,
				perSecond(m.PodsPerSecond), percent(s.ratio(c.Name, Binder, rate)), times(s.ratio(c.Name, KubeScheduler, rate)),
				perSecond(m.WithEvents), percent(s.ratio(c.Name, Binder, withEvents)), times(s.ratio(c.Name, KubeScheduler, withEvents)),
				milliseconds(m.CPUPerPod), times(s.ratio(c.Name, KubeScheduler, cpu)), milliseconds(m.ServerCPUPerPod),
				seconds(m.FirstBind), seconds(m.P50), seconds(m.P99), memory(m.PeakBytes),
			})
		}
	}
	p.print(columns(rows))
}

// pairs are the workloads that run with and without parked pods.
var pairs = []struct{ name, parked string }{
	{"ParkedChurn", "parked pods, churned by updates of nodes,"},
	{"HopelessPreemptors", "pods that fit nowhere and can preempt nobody"},
}

// parked writes the share of the rate that parked pods cost.
func (p *printer) parked(summaries []Summary) {
	for _, pair := range pairs {
		var without, with *Summary
		for i := range summaries {
			s := &summaries[i]
			if !strings.HasPrefix(s.Case.Name, pair.name+"/") {
				continue
			}
			if without == nil || s.Case.Before < without.Case.Before {
				without = s
			}
			if with == nil || s.Case.Before > with.Case.Before {
				with = s
			}
		}
		if with == without {
			continue
		}
		var text strings.Builder
		for _, c := range with.Contenders {
			before, known := without.find(c.Name)
			if c.Rounds > 0 && known && before.Median.PodsPerSecond > 0 {
				lost := 100 * (1 - c.Median.PodsPerSecond/before.Median.PodsPerSecond)
				fmt.Fprintf(&text, "%s %s take %.1f %% of the rate of %s\n", count(with.Case.Before-without.Case.Before), pair.parked, lost, c.Name)
			}
		}
		p.print(text.String())
	}
}

func (p *printer) restarts(summaries []Summary) {
	if len(summaries) == 0 {
		return
	}
	rows := [][]string{{"RESTART", "FIRST BIND", "LISTER", "CPU", "MEMORY"}}
	for _, s := range summaries {
		rows = append(rows, []string{fmt.Sprintf("%s: %s nodes, %s pods running", s.Case.Name, count(s.Case.Nodes), count(s.Case.Before))})
		for _, c := range s.Contenders {
			rows = append(rows, []string{
				indent + c.Name, seconds(c.Median.FirstBind), times(s.ratio(c.Name, Lister, first)),
				seconds(c.Median.CPUPerPod * time.Duration(s.Case.Pods)), memory(c.Median.PeakBytes),
			})
		}
	}
	p.print(columns(rows))
}

func (p *printer) failures(summaries []Summary) {
	var text strings.Builder
	for _, s := range summaries {
		for _, c := range s.Contenders {
			at := fmt.Sprintf("%s (%d nodes, %d before): %s", s.Case.Name, s.Case.Nodes, s.Case.Before, c.Name)
			for _, failure := range c.Failures {
				fmt.Fprintf(&text, "FAILED  %s: %s\n", at, strings.ReplaceAll(strings.TrimSpace(failure), "\n", "\n        "))
			}
			if c.LostEvents > 0 {
				fmt.Fprintf(&text, "%s wrote no Scheduled event for %d pods; +EVENTS counts until its last event\n", at, c.LostEvents)
			}
		}
	}
	p.print(text.String())
}

func (p *printer) notRun(list []NotRun) {
	var text strings.Builder
	for _, n := range list {
		by := ""
		if n.Who != "" {
			by = " by " + n.Who
		}
		fmt.Fprintf(&text, "%s: not run%s: needs %s\n", n.Name, by, n.Needs)
	}
	p.print(text.String())
}

func dash(known bool, text string) string {
	if !known {
		return "-"
	}
	return text
}

// count formats a number with separators.
func count(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func perSecond(rate float64) string { return dash(rate > 0, fmt.Sprintf("%.0f", rate)) }

func percent(ratio float64) string { return dash(ratio > 0, fmt.Sprintf("%.0f %%", 100*ratio)) }

// times formats a ratio with two significant digits.
func times(ratio float64) string {
	digits := 2
	if ratio >= 10 {
		digits = 0
	} else if ratio >= 1 {
		digits = 1
	}
	return dash(ratio > 0, fmt.Sprintf("%.*fx", digits, ratio))
}

func milliseconds(d time.Duration) string {
	return dash(d > 0, fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000))
}

func memory(bytes int64) string { return dash(bytes > 0, fmt.Sprintf("%d MiB", bytes>>20)) }

func seconds(d time.Duration) string {
	digits := 1
	if d < time.Second {
		digits = 2
	}
	return dash(d > 0, fmt.Sprintf("%.*f s", digits, d.Seconds()))
}
