package report

import (
	"io"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/kit/picture"
)

// Measures of the chart, in pixels.
const (
	chartWide  = 860
	labelWide  = 250 // names of cases, to the left of the bars
	valueWide  = 185 // figures, to the right of the bars
	barHigh    = 11
	barGap     = 2
	caseGap    = 12
	headHigh   = 34
	legendHigh = 62
	bottomHigh = 14
)

// chartStyle has the colors of the contenders.
var chartStyle = picture.Style{
	Light: `  .binder, .lister { fill: #afb8c1; }
  .kube-scheduler { fill: #d4843e; }
  .berth { fill: #2f6fdf; }
`,
	Dark: `    .binder, .lister { fill: #656c76; }
    .kube-scheduler { fill: #db8f4d; }
    .berth { fill: #5891f5; }
`,
}

// Chart writes a self-contained picture with a bar for the rate of each contender, case
// by case. Bars show pods/s including events if every contender has that figure.
func Chart(w io.Writer, summaries []Summary) error {
	c := &chart{}
	c.draw(summaries)
	return c.Write(w, chartWide, c.y, "Pods placed per second", chartStyle)
}

// chart is a picture that grows downwards.
type chart struct {
	picture.Picture
	y int
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
	top := picture.Ceiling(most)
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

// heading returns the heading of a group of cases.
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

func (c *chart) legend(names []string) {
	c.Text(8, 22, "title", "Pods placed per second, every event written")
	x := 8
	for _, name := range names {
		c.Bar(x, 36, 14, barHigh, name, name)
		c.Text(x+20, 46, "name", name)
		x += 40 + 8*len(name)
	}
	c.y = legendHigh
}

func (c *chart) section(title string, summaries []Summary, top float64) {
	c.Text(8, c.y+20, "head", title)
	c.y += headHigh
	start := c.y
	const wide = chartWide - labelWide - valueWide
	for _, s := range summaries {
		middle := c.y + len(s.Contenders)*(barHigh+barGap)/2
		c.Text(8, middle+4, "name", short(s.Case.Name))
		for _, contender := range s.Contenders {
			rate := shownRate(contender)
			value := perSecond(rate) + note(&s, contender.Name)
			c.Bar(labelWide, c.y, int(rate/top*wide), barHigh, contender.Name, contender.Name+": "+value)
			c.Text(labelWide+max(1, int(rate/top*wide))+6, c.y+barHigh-1, "value", value)
			c.y += barHigh + barGap
		}
		c.y += caseGap
	}
	c.Line(labelWide-1, start-4, labelWide-1, c.y-caseGap+4, "grid")
}

// note returns the ratio of Berth's rate to kube-scheduler's, as text.
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

// maxLabel is the number of characters that fit to the left of the bars.
const maxLabel = 36

// short shortens a name to fit. For a workload, it drops the size first.
func short(name string) string {
	if len(name) > maxLabel {
		name, _, _ = strings.Cut(name, "/")
	}
	if len(name) > maxLabel {
		name = name[:maxLabel-1] + "…"
	}
	return name
}
