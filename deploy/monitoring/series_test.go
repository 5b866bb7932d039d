package monitoring

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

var write = flag.Bool("write", false, "write the generated files")

// seriesDashboard has a panel for each series that no other dashboard shows. It is
// generated, so that none is left out.
const seriesDashboard = "berth-series-dashboard.json"

// everySeriesHasAPanel compares the generated dashboard with the list of series, and the
// series of a shadow.
func everySeriesHasAPanel(t *testing.T, listed map[string]*dto.MetricFamily) {
	t.Helper()
	series := maps.Clone(listed)
	for _, file := range dashboards {
		if file == seriesDashboard {
			continue
		}
		d := read(t, file)
		for _, e := range d.queries(t) {
			for name := range series {
				if shows(e.text, name) {
					delete(series, name)
				}
			}
		}
	}
	want := generated(t, series)
	if *write {
		if err := os.WriteFile(seriesDashboard, want, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(seriesDashboard)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not up to date (%v): run go test -run %s -write . in deploy/monitoring", seriesDashboard, err, t.Name())
	}
	if len(series) < 20 {
		t.Errorf("%d series: the test overlooks some", len(series))
	}
}

// shows reports whether a query reads a series, and not only one whose name begins alike.
func shows(query, name string) bool {
	return regexp.MustCompile(`\b` + name + `(_bucket|_sum|_count)?\b`).MatchString(query)
}

// listedSeries returns the families of the scheduler's own list that can have members:
// docs/metrics.md names the ones that are always empty. Each has a member without values.
func listedSeries(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var empty []*regexp.Regexp
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*`) \\| (?:Empty|Always 0|Deprecated)").FindAllStringSubmatch(string(page), -1) {
		for _, name := range strings.Split(row[1], ",") {
			empty = append(empty, regexp.MustCompile("^(scheduler_)?"+strings.ReplaceAll(strings.Trim(name, " `"), "*", ".*")+"$"))
		}
	}
	if len(empty) < 8 {
		t.Fatalf("docs/metrics.md has %d series that are always empty", len(empty))
	}
	types := map[string]*dto.MetricType{"counter": dto.MetricType_COUNTER.Enum(), "gauge": dto.MetricType_GAUGE.Enum(), "histogram": dto.MetricType_HISTOGRAM.Enum()}
	all := map[string]*dto.MetricFamily{}
	for _, d := range metrics.Descriptions() {
		if slices.ContainsFunc(empty, func(e *regexp.Regexp) bool { return e.MatchString(d.Name) }) {
			continue
		}
		var labels []*dto.LabelPair
		for _, name := range d.Labels {
			labels = append(labels, &dto.LabelPair{Name: &name, Value: new(string)})
		}
		all[d.Name] = &dto.MetricFamily{Type: types[d.Type], Help: &d.Help, Metric: []*dto.Metric{{Label: labels}}}
	}
	return all
}

// shadowSeries returns the series in the table of docs/metrics.md.
func shadowSeries(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*dto.MetricFamily{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.HasPrefix(cells[1], " `berth_shadow_") {
			continue
		}
		var labels []*dto.LabelPair
		if label := strings.Trim(cells[3], " `"); label != "" {
			labels = append(labels, &dto.LabelPair{Name: &label, Value: new(string)})
		}
		for i, name := range strings.Split(cells[1], ",") {
			kind := dto.MetricType_GAUGE
			if kinds := strings.Split(cells[2], ","); strings.TrimSpace(kinds[min(i, len(kinds)-1)]) == "counter" {
				kind = dto.MetricType_COUNTER
			}
			help := strings.TrimSpace(cells[4])
			all[strings.Trim(name, " `")] = &dto.MetricFamily{Type: &kind, Help: &help, Metric: []*dto.Metric{{Label: labels}}}
		}
	}
	if len(all) < 10 {
		t.Fatalf("%d series in docs/metrics.md", len(all))
	}
	return all
}

// generated returns the dashboard, with the panels sorted by name.
func generated(t *testing.T, series map[string]*dto.MetricFamily) []byte {
	t.Helper()
	source := map[string]any{"type": "prometheus", "uid": "${datasource}"}
	var panels []any
	for i, name := range slices.Sorted(maps.Keys(series)) {
		expression, unit := queryOf(name, series[name])
		panels = append(panels, map[string]any{
			"id": i + 1, "type": "timeseries", "title": name, "description": series[name].GetHelp(), "datasource": source,
			"gridPos":     map[string]any{"h": 7, "w": 8, "x": 8 * (i % 3), "y": 7 * (i / 3)},
			"targets":     []any{map[string]any{"refId": "A", "datasource": source, "expr": expression}},
			"fieldConfig": map[string]any{"defaults": map[string]any{"unit": unit, "min": 0}, "overrides": []any{}},
		})
	}
	variable := func(name, query string) any {
		return map[string]any{
			"name": name, "type": "query", "datasource": source, "includeAll": true, "multi": true, "current": map[string]any{"text": "All", "value": "$__all"},
			"query": map[string]any{"query": query, "refId": name}, "refresh": 2,
		}
	}
	text, err := json.MarshalIndent(map[string]any{
		"title": "Berth, every other series", "uid": "berth-series", "schemaVersion": 39, "tags": []string{"berth"},
		"time": map[string]any{"from": "now-6h", "to": "now"}, "panels": panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "datasource", "type": "datasource", "query": "prometheus"},
			variable("job", "label_values(berth_build_info, job)"),
			variable("instance", `label_values(berth_build_info{job=~"$job"}, instance)`),
		}},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// queryOf returns the query of a panel, and the unit of its values.
func queryOf(name string, family *dto.MetricFamily) (query, unit string) {
	unit = "short"
	switch {
	case strings.Contains(name, "seconds"):
		unit = "s"
	case strings.Contains(name, "bytes"):
		unit = "bytes"
	}
	var by []string
	if len(family.GetMetric()) > 0 {
		for _, label := range family.GetMetric()[0].GetLabel() {
			by = append(by, label.GetName())
		}
	}
	const selector = `{job=~"$job", instance=~"$instance"}`
	switch family.GetType() {
	case dto.MetricType_COUNTER:
		return fmt.Sprintf("sum by (%s) (rate(%s%s[$__rate_interval]))", strings.Join(by, ", "), name, selector), unit
	case dto.MetricType_HISTOGRAM:
		by = append([]string{"le"}, by...)
		return fmt.Sprintf("histogram_quantile(0.99, sum by (%s) (rate(%s_bucket%s[$__rate_interval])))", strings.Join(by, ", "), name, selector), unit
	}
	return fmt.Sprintf("sum by (%s) (%s%s)", strings.Join(append(by, "instance"), ", "), name, selector), unit
}
