// Package picture draws charts as self-contained SVG pictures for light and dark pages.
//
// It takes texts, bars and lines in pixels, and returns a picture. It owns the common
// style and the rounding of axes. It never decides which data is shown.
package picture

import (
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strings"
)

// style is the style of all pictures.
const style = `
  text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #1f2328; }
  .title { font-size: 15px; font-weight: 600; }
  .head { font-weight: 600; }
  .value, .note { font-size: 11px; fill: #59636e; }
  .grid { stroke: #d1d9e0; stroke-width: 1; }
`

const darkStyle = `    text { fill: #e6edf3; }
    .value, .note { fill: #9198a1; }
    .grid { stroke: #3d444d; }
`

// Style is a picture's addition to the common style: CSS rules, and CSS rules for dark
// pages.
type Style struct{ Light, Dark string }

const cornerRound = 2

// Picture is a picture in progress. The zero value is empty.
type Picture struct{ body strings.Builder }

// Text writes a text that begins at x, on the line y.
func (p *Picture) Text(x, y int, class, text string) {
	fmt.Fprintf(&p.body, "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, escape(text))
}

// Bar draws a bar, at least one pixel wide. The title is a tooltip.
func (p *Picture) Bar(x, y, wide, high int, class, title string) {
	fmt.Fprintf(&p.body, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"%d\" class=\"%s\"><title>%s</title></rect>\n",
		x, y, max(1, wide), high, cornerRound, class, escape(title))
}

// Line draws a straight line.
func (p *Picture) Line(x1, y1, x2, y2 int, class string) {
	fmt.Fprintf(&p.body, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" class=\"%s\"/>\n", x1, y1, x2, y2, class)
}

// Point is a place in a picture.
type Point struct{ X, Y float64 }

// Curve connects points. The title is a tooltip.
func (p *Picture) Curve(points []Point, class, title string) {
	var at []string
	for _, point := range points {
		at = append(at, fmt.Sprintf("%.1f,%.1f", point.X, point.Y))
	}
	fmt.Fprintf(&p.body, "<polyline points=\"%s\" class=\"%s\"><title>%s</title></polyline>\n", strings.Join(at, " "), class, escape(title))
}

// Write writes the picture. label describes it for screen readers.
func (p *Picture) Write(w io.Writer, wide, high int, label string, own Style) error {
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="%s">
<style>%s%s  @media (prefers-color-scheme: dark) {
%s%s  }
</style>
%s</svg>
`, wide, high, wide, high, escape(label), style, own.Light, darkStyle, own.Dark, p.body.String())
	return err
}

func escape(text string) string {
	var b strings.Builder
	// A strings.Builder cannot fail.
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}

// Ceiling returns the round number at the end of an axis.
func Ceiling(most float64) float64 {
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
