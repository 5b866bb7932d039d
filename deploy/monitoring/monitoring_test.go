package monitoring

import (
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"regexp"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

// expression is a query and its place.
type expression struct{ where, text string }

// dashboard is the part of Grafana's format that the tests read.
type dashboard struct {
	Title  string `json:"title"`
	UID    string `json:"uid"`
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		Type    string `json:"type"`
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
	Templating struct {
		List []struct {
			Name  string          `json:"name"`
			Type  string          `json:"type"`
			Query json.RawMessage `json:"query"`
		} `json:"list"`
	} `json:"templating"`
}

var (
	dashboards = []string{"kube-scheduler-dashboard.json", "berth-dashboard.json", seriesDashboard}
	// variables replaces Grafana's variables with values.
	variables = strings.NewReplacer("$__rate_interval", "5m", "$job", "kube-scheduler", "$instance", "127.0.0.1:10259")
	// labelValues matches Grafana's query for a label's values.
	labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
	// targets are the labels that Prometheus adds to scraped series.
	targets = map[string]bool{"job": true, "instance": true, "pod": true, "namespace": true, "cluster": true}
)

func read(t *testing.T, file string) dashboard {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return d
}

// queries returns all queries of a dashboard.
func (d *dashboard) queries(t *testing.T) []expression {
	t.Helper()
	var all []expression
	for _, p := range d.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s: panel %q asks nothing", d.Title, p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, expression{d.Title + ", panel " + p.Title, variables.Replace(target.Expr)})
		}
	}
	for _, v := range d.Templating.List {
		if v.Type != "query" {
			continue
		}
		var query struct {
			Query string `json:"query"`
		}
		if err := json.Unmarshal(v.Query, &query); err != nil {
			t.Fatalf("%s, variable %s: %v", d.Title, v.Name, err)
		}
		parts := labelValues.FindStringSubmatch(query.Query)
		if parts == nil {
			t.Fatalf("%s, variable %s: %q is not label_values(metric, label)", d.Title, v.Name, query.Query)
		}
		all = append(all, expression{d.Title + ", variable " + v.Name, "count by (" + parts[2] + ") (" + variables.Replace(parts[1]) + ")"})
	}
	return all
}

// rules returns the rules' expressions and checks that the rules are well-formed.
func rules(t *testing.T, p parser.Parser) []expression {
	t.Helper()
	groups, errs := rulefmt.ParseFile("rules.yaml", false, model.LegacyValidation, p, slog.New(slog.DiscardHandler))
	for _, err := range errs {
		t.Error(err)
	}
	if groups == nil {
		t.FailNow()
	}
	var all []expression
	for _, group := range groups.Groups {
		for _, r := range group.Rules {
			if r.Alert != "" && (r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.Labels["severity"] == "") {
				t.Errorf("alert %s: it must have a summary, a description and a severity", r.Alert)
			}
			all = append(all, expression{"rule " + r.Alert + r.Record, r.Expr})
		}
	}
	return all
}

// TestExpressions parses every expression with Prometheus' parser and checks that a
// scheduler serves the metrics and labels in it.
func TestExpressions(t *testing.T) {
	listed := listedSeries(t)
	maps.Copy(listed, shadowSeries(t))
	everySeriesHasAPanel(t, listed)
	failuresHaveAlerts(t, listed)
	families := served(t)
	for name, family := range listed { // without a member, or with a gate that is off
		if families[name] == nil {
			families[name] = family
		}
	}
	p := parser.NewParser(parser.Options{})
	all := rules(t, p)
	for _, file := range dashboards {
		d := read(t, file)
		all = append(all, d.queries(t)...)
	}
	if len(all) < 50 {
		t.Errorf("found %d expressions only", len(all))
	}
	for _, e := range all {
		parsed, err := p.ParseExpr(e.text)
		if err != nil {
			t.Errorf("%s: %s: %v", e.where, e.text, err)
			continue
		}
		for _, problem := range problems(families, parsed) {
			t.Errorf("%s: %s: %s", e.where, e.text, problem)
		}
	}
}

// problems returns an expression's missing metrics and labels.
func problems(families map[string]*dto.MetricFamily, parsed parser.Expr) []string {
	var all []string
	known := map[string]bool{"quantile": true} // labels in the expression's input
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok || selector.Name == "up" { // a series of Prometheus itself
			return nil
		}
		family, part := familyOf(families, selector.Name)
		if family == nil {
			all = append(all, "the scheduler does not serve "+selector.Name)
			return nil
		}
		names := labelsOf(family)
		if part == "_bucket" {
			names["le"] = true
		}
		for _, m := range selector.LabelMatchers {
			if m.Name != "__name__" && !names[m.Name] && !targets[m.Name] {
				all = append(all, selector.Name+" has no label "+m.Name)
			}
		}
		for name := range names {
			known[name] = true
		}
		return nil
	})
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		if sum, ok := n.(*parser.AggregateExpr); ok {
			for _, name := range sum.Grouping {
				if !known[name] && !targets[name] {
					all = append(all, "nothing that is read has the label "+name)
				}
			}
		}
		return nil
	})
	return all
}

// TestEveryAlertIsExplained expects a section for each alert in docs/operate.md, with its
// meaning, the first place to look, and the remedy. Other sections are an error.
func TestEveryAlertIsExplained(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.ParseFile("rules.yaml", false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	sections := map[string]string{}
	for i, section := range strings.Split(string(page), "\n## ") {
		if name, text, _ := strings.Cut(section, "\n"); i > 0 {
			sections[name] = text
		}
	}
	for _, group := range groups.Groups {
		for _, r := range group.Rules {
			if r.Alert == "" {
				continue
			}
			for _, part := range []string{"**Means:** ", "**First look:** ", "**Remedy:** "} {
				if !strings.Contains(sections[r.Alert], "\n"+part) {
					t.Errorf("docs/operate.md: the section of %s lacks %q", r.Alert, part)
				}
			}
			if want := "https://github.com/berth-scheduler/berth/blob/main/docs/operate.md#" + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
				t.Errorf("alert %s: runbook_url %q, want %s", r.Alert, r.Annotations["runbook_url"], want)
			}
			delete(sections, r.Alert)
		}
	}
	for name := range sections {
		t.Errorf("docs/operate.md has a section %s, and there is no such alert", name)
	}
}

// TestNamesAreOurOwn: kube-prometheus has alerts that begin with Kube, and records that
// begin with cluster_quantile. Equal names would fire twice, or mix two rules.
func TestNamesAreOurOwn(t *testing.T) {
	groups, errs := rulefmt.ParseFile("rules.yaml", false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	seen := map[string]bool{}
	for _, group := range groups.Groups {
		for _, r := range group.Rules {
			switch {
			case strings.HasPrefix(r.Alert, "Kube"), strings.HasPrefix(r.Record, "cluster_quantile:"):
				t.Errorf("%s%s: may be a name of kube-prometheus", r.Alert, r.Record)
			case seen[r.Alert] && r.Alert != "":
				t.Errorf("%s: two alerts have this name", r.Alert)
			}
			seen[r.Alert] = true
		}
	}
}

// TestProblemsAreSeen expects a problem for each expression with a missing metric or
// label.
func TestProblemsAreSeen(t *testing.T) {
	families := map[string]*dto.MetricFamily{"a_total": {Type: dto.MetricType_COUNTER.Enum()}, "h": {Type: dto.MetricType_HISTOGRAM.Enum()}}
	for text, want := range map[string]int{
		`sum(rate(a_total{job="x"}[5m]))`: 0, `h_bucket{le="1"}`: 0, `up`: 0, `sum by (instance) (h_sum) / sum by (instance) (h_count)`: 0,
		`b_total`: 1, `h`: 1, `a_total{le="1"}`: 1, `sum by (verb) (a_total)`: 1, `h_bucket / c`: 1, `a_bucket`: 1,
	} {
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := problems(families, parsed); len(got) != want {
			t.Errorf("%s: %q, want %d problems", text, got, want)
		}
	}
}

// TestDashboards checks what Grafana requires of a dashboard.
func TestDashboards(t *testing.T) {
	uids := map[string]bool{}
	for _, file := range dashboards {
		d := read(t, file)
		ids := map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels have the number %d", file, p.ID)
			}
			ids[p.ID] = true
		}
		if d.UID == "" || d.Title == "" || uids[d.UID] || len(d.Panels) == 0 {
			t.Errorf("%s: title %q, uid %q, %d panels", file, d.Title, d.UID, len(d.Panels))
		}
		uids[d.UID] = true
	}
}
