package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/picture"
)

// Measures of the chart, in pixels.
const (
	chartWide  = 860
	panels     = 3 // side by side
	panelWide  = 270
	panelHigh  = 92
	curveHigh  = 52
	gap        = 17
	headHigh   = 30
	legendHigh = 40
)

// chartStyle has one color for figures that must stay flat, and another for the rest.
var chartStyle = picture.Style{
	Light: `  polyline { fill: none; stroke: #2f6fdf; stroke-width: 2; }
  polyline.time, polyline.traffic, polyline.standing { stroke: #afb8c1; }
`,
	Dark: `    polyline { stroke: #5891f5; }
    polyline.time, polyline.traffic, polyline.standing { stroke: #656c76; }
`,
}

// heads are the headings of the groups.
var heads = map[group]string{
	traffic: "What the world did each day", standing: "What there was, mean of each day", memory: "Memory at the end of each day",
	kept: "What is kept, mean of each day", work: "Counted work, per change or per decision", clock: "Real time (depends on what else the machine did)",
}

// chart draws a curve for each figure, from 0 up, day by day.
func chart(w io.Writer, days []day, nodes int) error {
	p := &picture.Picture{}
	p.Text(8, 22, "title", fmt.Sprintf("A simulated scheduler of %d nodes over %d days", nodes, len(days)))
	y := legendHigh
	for _, g := range []group{memory, kept, work, traffic, standing, clock} {
		p.Text(8, y+18, "head", heads[g])
		y += headHigh
		column := 0
		for i, f := range figures() {
			if f.group != g {
				continue
			}
			if column == panels {
				column, y = 0, y+panelHigh
			}
			panel(p, 8+column*(panelWide+gap), y, f, values(days, i))
			column++
		}
		y += panelHigh + gap
	}
	return p.Write(w, chartWide, y, "Memory, work and what is kept, by simulated day", chartStyle)
}

func values(days []day, figure int) []float64 {
	var all []float64
	for _, d := range days {
		all = append(all, d.values[figure])
	}
	return all
}

// panel draws one figure. Its axis begins at 0.
func panel(p *picture.Picture, x, y int, f figure, values []float64) {
	top := picture.Ceiling(slices.Max(values))
	bottom := y + 18 + curveHigh
	p.Text(x, y+12, "value", fmt.Sprintf("%s: %s", f.name, text(values[len(values)-1])))
	var points []picture.Point
	for i, value := range values {
		points = append(points, picture.Point{
			X: float64(x) + float64(i)/float64(max(1, len(values)-1))*panelWide,
			Y: float64(bottom) - value/top*curveHigh,
		})
	}
	p.Line(x, bottom, x+panelWide, bottom, "grid")
	p.Curve(points, string(f.group), fmt.Sprintf("%s: %s on day 1, %s on day %d", f.name, text(values[0]), text(values[len(values)-1]), len(values)))
}
