package report

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Measures of the chart, in pixels.
const (
	chartWide   = 860
	labelWide   = 250 // names of cases, to the left of the bars
	valueWide   = 185 // figures, to the right of the bars
	barHigh     = 11
	barGap      = 2
	caseGap     = 12
	headHigh    = 34
	legendHigh  = 62
	bottomHigh  = 14
	cornerRound = 2
)

// chartStyle makes the chart readable on light and dark pages alike, wherever it is shown.
const chartStyle = `
  text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .head { font-weight: 600; }
  .value, .note { font-size: 11px; fill: #59636e; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
  .binder, .lister { fill: #afb8c1; }
  .kube-scheduler { fill: #d4843e; }
  .berth { fill: #2f6fdf; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .value, .note { fill: #9198a1; }
    .grid { stroke: #3d444d; }
    .binder, .lister { fill: #656c76; }
    .kube-scheduler { fill: #db8f4d; }
    .berth { fill: #5891f5; }
  }
`

// Chart writes the rates of all contenders as one bar each, case by case, as a self-contained picture. Bars show pods/s with events counted
// where every contender has that figure.
func Chart(w io.Writer, summaries []Summary) error {
	c := &chart{}
	c.draw(summaries)
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="Pods placed per second">
<style>%s</style>
%s</svg>
`, chartWide, c.y, chartWide, c.y, chartStyle, c.body.String())
	return err
}

// chart is a picture that grows downwards.
type chart struct {
	body strings.Builder
	y    int
}

func (c *chart) draw(summaries []Summary) {
	var shown []Summary
	var names []string
	most := 0.0
	for _, s := range summaries {
		if s.Case.Kind == "restart" {
			continue
		}
		shown = append(shown, s)
		for _, contender := range s.Contenders {
			if !slices.Contains(names, contender.Name) {
				names = append(names, contender.Name)
			}
			most = max(most, shownRate(contender))
		}
	}
	top := ceiling(most)
	c.legend(names)
	for i := 0; i < len(shown); {
		section := heading(shown[i].Case)
		end := i
		for end < len(shown) && heading(shown[end].Case) == section {
			end++
		}
		c.section(section, shown[i:end], top)
		i = end
	}
	c.y += bottomHigh
}

// heading groups cases.
func heading(c Case) string {
	if c.Kind == "workload" {
		return "Workloads of scheduler_perf, pods created while they are placed"
	}
	if c.Before == 0 {
		return count(c.Nodes) + " nodes, no pods running before"
	}
	return count(c.Nodes) + " nodes, " + count(c.Before) + " pods running before"
}

func shownRate(s Standing) float64 {
	if s.Median.WithEvents > 0 {
		return s.Median.WithEvents
	}
	return s.Median.PodsPerSecond
}

// ceiling is the round number at the end of the axis.
func ceiling(most float64) float64 {
	if most <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	for _, step := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8, 10} {
		if step*unit >= most {
			return step * unit
		}
	}
	return 10 * unit
}

func (c *chart) text(x, y int, class, text string) {
	fmt.Fprintf(&c.body, "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, escape(text))
}

func (c *chart) bar(x, y, wide int, class, title string) {
	fmt.Fprintf(&c.body, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" class=\"%s\"><title>%s</title></rect>\n",
		x, y, max(1, wide), barHigh, cornerRound, class, escape(title))
}

func escape(text string) string {
	var b strings.Builder
	// A strings.Builder cannot fail.
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}

func (c *chart) legend(names []string) {
	c.text(8, 22, "title", "Pods placed per second, every event written")
	x := 8
	for _, name := range names {
		c.bar(x, 36, 14, name, name)
		c.text(x+20, 46, "name", name)
		x += 40 + 8*len(name)
	}
	c.y = legendHigh
}

func (c *chart) section(title string, summaries []Summary, top float64) {
	c.text(8, c.y+20, "head", title)
	c.y += headHigh
	start := c.y
	const wide = chartWide - labelWide - valueWide
	for _, s := range summaries {
		middle := c.y + len(s.Contenders)*(barHigh+barGap)/2
		c.text(8, middle+4, "name", short(s.Case.Name))
		for _, contender := range s.Contenders {
			rate := shownRate(contender)
			value := perSecond(rate) + note(&s, contender.Name)
			c.bar(labelWide, c.y, int(rate/top*wide), contender.Name, contender.Name+": "+value)
			c.text(labelWide+max(1, int(rate/top*wide))+6, c.y+barHigh-1, "value", value)
			c.y += barHigh + barGap
		}
		c.y += caseGap
	}
	fmt.Fprintf(&c.body, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"grid\"/>\n", labelWide-1, start-4, labelWide-1, c.y-caseGap+4)
}

// note is the ratio of a contender's rate to kube-scheduler's, as text.
func note(s *Summary, name string) string {
	if name != Berth {
		return ""
	}
	figure := withEvents
	if own, known := s.find(name); known && own.Median.WithEvents == 0 {
		figure = rate
	}
	if ratio := s.ratio(name, KubeScheduler, figure); ratio > 0 {
		return " (" + times(ratio) + " kube-scheduler)"
	}
	return ""
}

// labelMax is how many characters fit to the left of the bars.
const labelMax = 36

// short shortens a name so that it fits: of a workload, it drops the size first.
func short(name string) string {
	if len(name) > labelMax {
		name, _, _ = strings.Cut(name, "/")
	}
	if len(name) > labelMax {
		name = name[:labelMax-1] + "…"
	}
	return name
}
