package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/berth-scheduler/berth/internal/answers/queued"
)

// queueRow is a row of the table: a group, or one pod of it.
type queueRow struct {
	group *queued.Group
	pod   *queued.Pod // nil for a group
}

// queueOrders are the values of --sort-by. The scheduler's order is that of the turns.
var queueOrders = map[string]func(a, b *queued.Group) int{
	"turn":      func(_, _ *queued.Group) int { return 0 },
	"age":       func(a, b *queued.Group) int { return a.Since.Compare(b.Since) },
	"pods":      func(a, b *queued.Group) int { return cmp.Compare(b.Count, a.Count) },
	"tries":     func(a, b *queued.Group) int { return cmp.Compare(b.MaxAttempts, a.MaxAttempts) },
	"owner":     func(a, b *queued.Group) int { return cmp.Compare(a.Owner, b.Owner) },
	"namespace": func(a, b *queued.Group) int { return cmp.Compare(a.Namespace, b.Namespace) },
}

// sortKeys returns the values of --sort-by, the default first.
func sortKeys[T any](first string, orders map[string]T) []string {
	keys := []string{first}
	for _, key := range slices.Sorted(maps.Keys(orders)) {
		if key != first {
			keys = append(keys, key)
		}
	}
	return keys
}

// sort sorts the groups of an answer.
func (f *queueFlags) sort(a *queued.Answer) {
	order := queueOrders[f.sortBy]
	slices.SortStableFunc(a.Groups, func(x, y queued.Group) int { return order(&x, &y) })
}

// print prints an answer. all adds the namespaces.
func (f *queueFlags) print(w io.Writer, a *queued.Answer, all bool) error {
	done, err := f.printing.print(w, listing{
		object: a, rows: rowsOf(a.Groups),
		table: func() *table { return queueTable(a, true, f.recorded) },
		names: func() (names []string) {
			for i := range a.Groups {
				for j := range a.Groups[i].Pods {
					names = append(names, "pod/"+a.Groups[i].Pods[j].Name)
				}
			}
			return names
		},
	})
	if done {
		return err
	}
	if len(a.Groups) == 0 {
		return nil
	}
	t := queueTable(a, f.output == "wide", f.recorded)
	if !all {
		t.dropFirst()
	}
	width := widthOf(w)
	if err := t.print(w, width, !f.noHeaders); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	if len(a.WaitsFor) > 0 && !f.noHeaders {
		fmt.Fprint(w, "\nEvents that wake pods:\n")
		events := table{columns: []column{{name: "PLUGIN"}, {name: "EVENTS", text: true}}}
		for _, x := range a.WaitsFor {
			text := cmp.Or(strings.Join(x.Events, ", "), "any change of the pod")
			events.rows = append(events.rows, []string{x.Plugin, text})
		}
		if err := events.print(w, width, true); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

// queueTable returns the table of an answer, with a row for each group, or for each pod
// if wide is set.
func queueTable(a *queued.Answer, wide, offline bool) *table {
	t := &table{columns: []column{{name: "NAMESPACE"}, {name: "OWNER"}, {name: "PODS", number: true}}}
	if wide {
		t.columns = []column{{name: "NAMESPACE"}, {name: "POD"}, {name: "OWNER"}, {name: "NOMINATED"}}
	}
	t.columns = append(t.columns, column{name: "STATE"}, column{name: "AGE", number: true},
		column{name: "TRIES", number: true}, column{name: "NEXT", number: true}, column{name: "REASON", text: true})
	for i := range a.Groups {
		g := &a.Groups[i]
		if !wide {
			row := []string{g.Namespace, g.Owner, fmt.Sprint(g.Count)}
			t.rows = append(t.rows, append(row, queueCells(a.At, queueRow{group: g}, offline)...))
			continue
		}
		for j := range g.Pods {
			p := &g.Pods[j]
			row := []string{g.Namespace, p.Name, g.Owner, cmp.Or(p.Nominated, "<none>")}
			t.rows = append(t.rows, append(row, queueCells(a.At, queueRow{g, p}, offline)...))
		}
	}
	return t
}

// queueCells returns the cells that groups and pods have in common.
func queueCells(at time.Time, r queueRow, offline bool) []string {
	g := r.group
	since, tries, next, position := g.Since, span(g.MinAttempts, g.MaxAttempts), g.Next, g.Position
	if r.pod != nil {
		since, tries, next, position = r.pod.Created, fmt.Sprint(r.pod.Attempts), r.pod.Next, r.pod.Position
	}
	when := "-"
	switch {
	case offline:
		tries = "-"
	case position > 0:
		when = fmt.Sprintf("#%d", position)
	case next != nil:
		when = "in " + duration.HumanDuration(max(0, next.Sub(at)))
	case g.WaitsForEvent:
		when = "event"
	}
	return []string{placeWord(g.Place), duration.HumanDuration(max(0, at.Sub(since))), tries, when, reasonOf(g)}
}

// placeWord shortens the name of a place.
func placeWord(place string) string {
	switch place {
	case "backing off":
		return "backoff"
	case "backing off after an error":
		return "error"
	}
	return place
}

// span formats a range of numbers.
func span(least, most int) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d-%d", least, most)
}

// reasonOf describes why the pods of a group wait.
func reasonOf(g *queued.Group) string {
	reason := g.Reason
	switch {
	case reason != "":
	case len(g.Rejectors) > 0:
		reason = strings.Join(g.Rejectors, ", ")
	case g.MaxAttempts == 0 && g.Place != "unschedulable":
		reason = "not tried yet"
	}
	if g.Evicted > 0 {
		reason += fmt.Sprintf("; until %s gone", counted(g.Evicted, "evicted pod is", "evicted pods are"))
	}
	return reason
}
