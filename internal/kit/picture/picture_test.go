package picture

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestPictureIsXML(t *testing.T) {
	var p Picture
	p.Text(1, 2, "head", `<"&`)
	p.Bar(1, 2, 0, 4, "berth", "a < b")
	p.Line(1, 2, 3, 4, "grid")
	p.Curve([]Point{{1, 2}, {3, 4.25}}, "kept", "c & d")
	var out strings.Builder
	if err := p.Write(&out, 10, 20, `"label"`, Style{Light: "  .a { fill: red; }\n", Dark: "    .a { fill: blue; }\n"}); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(strings.NewReader(out.String())); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, out.String())
		}
	}
	for _, want := range []string{`width="1" height="4"`, `points="1.0,2.0 3.0,4.2"`, "a &lt; b", "fill: blue"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in\n%s", want, out.String())
		}
	}
}

func TestCeiling(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 0.07: 0.08, 1: 1, 11: 15, 99: 100, 1464: 1500} {
		if got := Ceiling(most); got != want {
			t.Errorf("the ceiling of %v is %v, want %v", most, got, want)
		}
	}
}
