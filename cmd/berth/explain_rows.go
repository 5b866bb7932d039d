package main

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/internal/answers/explain"
)

// rowPrinter prints a row for each explanation.
type rowPrinter struct {
	*printing

	w        *bufio.Writer
	snapshot *explain.Snapshot // nil for a pod on its node
	table    *table
	columns  *customColumns // of custom-columns
}

func explainedPods() *table {
	return newTable("NAMESPACE", "POD", "PROFILE", "NODES>", "FEASIBLE>", "NODE", "MESSAGE~")
}

func (p *rowPrinter) print(a *explain.Explanation) error {
	namespace, name, _ := strings.Cut(a.Pod, "/")
	switch p.output {
	case "name":
		_, err := fmt.Fprintf(p.w, "pod/%s\n", name)
		return err
	case ofJSONPath: // of each pod, because all of them may not fit in memory
		if err := printTemplate(p.w, p.template, a); err != nil {
			return err
		}
		return p.w.WriteByte('\n')
	case ofColumns:
		if p.columns == nil {
			var err error
			if p.columns, err = newColumns(p.template); err != nil {
				return err
			}
		}
		return p.columns.add(a)
	}
	var sum explain.Summary
	if p.snapshot != nil {
		sum = p.snapshot.Summarize(a)
	} else if a.Decision != nil {
		sum = explain.Summary{Nodes: a.Decision.Nodes, Feasible: a.Decision.Feasible, Taken: a.Decision.Node}
	}
	p.table.add(namespace, name, a.Profile, sum.Nodes, sum.Feasible, orNone(sum.Taken), a.Message)
	return nil
}

func (p *rowPrinter) end() error {
	switch {
	case p.output == "csv":
		return p.table.printCSV(p.w, !p.noHeaders)
	case p.columns != nil:
		return p.columns.table.print(p.w, 0, !p.noHeaders)
	}
	return nil
}
