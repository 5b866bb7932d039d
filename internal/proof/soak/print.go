package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"k8s.io/cli-runtime/pkg/printers"
)

// outputs are the output formats.
var outputs = []string{"table", "json", "csv"}

// print writes the result in one of the formats.
func print(w io.Writer, output string, days []day) error {
	switch output {
	case "json":
		return printJSON(w, days)
	case "csv":
		return printCSV(w, days)
	}
	return printTable(w, days)
}

// text formats a number with its significant digits.
func text(value float64) string {
	switch {
	case value == float64(int64(value)), value >= 100:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case value >= 10:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 3, 64)
}

func printTable(w io.Writer, days []day) error {
	t := printers.GetNewTabWriter(w)
	fmt.Fprint(t, "DAY")
	for _, f := range figures() {
		if f.head != "" {
			fmt.Fprint(t, "\t", f.head)
		}
	}
	fmt.Fprintln(t)
	for _, d := range days {
		fmt.Fprint(t, d.number)
		for i, f := range figures() {
			if f.head != "" {
				fmt.Fprint(t, "\t", text(d.values[i]))
			}
		}
		fmt.Fprintln(t)
	}
	if compared := trends(days); len(compared) > 0 {
		fmt.Fprint(t, "\nFIGURE\tABOUT\tFIRST DAYS\tLAST DAYS\t\n")
		for _, c := range compared {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", c.name, c.group, text(c.first), text(c.last), verdict(c))
		}
	}
	return t.Flush()
}

func verdict(t trend) string {
	switch {
	case t.group == clock:
		return "not judged"
	case t.rises():
		return "RISES"
	}
	return "flat"
}

func printCSV(w io.Writer, days []day) error {
	c := csv.NewWriter(w)
	header := []string{"day"}
	for _, f := range figures() {
		header = append(header, f.name)
	}
	lines := [][]string{header}
	for _, d := range days {
		line := []string{strconv.Itoa(d.number)}
		for _, value := range d.values {
			line = append(line, text(value))
		}
		lines = append(lines, line)
	}
	if err := c.WriteAll(lines); err != nil {
		return fmt.Errorf("write days as CSV: %w", err)
	}
	return nil
}

// dayObject is a day in JSON.
type dayObject struct {
	Day     int                `json:"day"`
	Figures map[string]float64 `json:"figures"`
}

// trendObject is a trend in JSON.
type trendObject struct {
	Figure  string  `json:"figure"`
	Group   group   `json:"group"`
	First   float64 `json:"first"`
	Last    float64 `json:"last"`
	Verdict string  `json:"verdict"`
}

func printJSON(w io.Writer, days []day) error {
	object := struct {
		Days   []dayObject   `json:"days"`
		Trends []trendObject `json:"trends"`
	}{}
	for _, d := range days {
		o := dayObject{Day: d.number, Figures: map[string]float64{}}
		for i, f := range figures() {
			o.Figures[f.name] = d.values[i]
		}
		object.Days = append(object.Days, o)
	}
	for _, t := range trends(days) {
		object.Trends = append(object.Trends, trendObject{t.name, t.group, t.first, t.last, verdict(t)})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(object)
}
