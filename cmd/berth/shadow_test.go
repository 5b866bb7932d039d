package main

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/app"
	"github.com/berth-scheduler/berth/internal/answers/shadow"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// replayed is the part of berth explain's output that the test reads.
type replayed struct {
	Message string
	Nodes   []struct {
		Name       string
		Feasible   bool
		Total      int64
		Rejections []struct {
			Plugin  string
			Reasons []string
		}
	}
}

// TestDisagreementsReplay explains the file of a disagreement with berth explain, and
// compares the result with the shadow's.
func TestDisagreementsReplay(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := newSnapshots(filepath.Join(t.TempDir(), "kept"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]shadow.Decision{}
	follower, err := shadow.New(shadow.Config{Scheduler: scheduler, Grace: time.Minute, MaxKeep: 10, Keep: kept.keep, Report: func(d shadow.Decision) { told[d.Pod] = d }})
	if err != nil {
		t.Fatal(err)
	}
	in, at := shadow.NewIntake(scheduler.Compile()), time.Unix(1000, 0)
	for _, name := range []string{"a", "b", "c"} {
		in.Set(build.Node(name, build.Allocatable("cpu="+map[string]string{"a": "4", "b": "8", "c": "16"}[name]+" memory=8Gi")))
	}
	follower.Apply(at, in.Drain())
	follower.Synced()
	bound := func(name, cpu, node string) {
		in.Set(build.Pod(build.Named(name), build.Container("cpu="+cpu)))
		in.Set(build.Pod(build.Named(name), build.Container("cpu="+cpu), build.NodeName(node)))
	}
	bound("first", "1", "c")
	bound("huge", "9", "b")
	bound("lesser", "1", "a")
	follower.Apply(at, in.Drain())
	summary := follower.End(at.Add(time.Minute))
	if summary.Contradict != 1 || summary.Lesser != 1 || kept.err != nil {
		t.Fatalf("%+v, %v", summary, kept.err)
	}
	for _, name := range []string{"default/huge", "default/lesser"} {
		d := told[name]
		var out, errs bytes.Buffer
		if code := run(t.Context(), []string{"berth", "explain", "--snapshot", d.Snapshot, "--pod", name, "-o", "json"}, &out, &errs); code != 0 {
			t.Fatalf("exit code %d: %s", code, &errs)
		}
		var got replayed
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		feasible, best := 0, int64(0)
		for _, node := range got.Nodes {
			if node.Feasible {
				feasible++
				best = max(best, node.Total)
			}
			switch {
			case node.Name != d.Node:
			case d.Verdict == shadow.Lesser && node.Total != d.Total:
				t.Errorf("%s: the total of %s is %d, the shadow has %d", name, node.Name, node.Total, d.Total)
			case d.Verdict == shadow.Contradict && (node.Feasible || node.Rejections[0].Plugin != d.Rejections[0].Plugin || node.Rejections[0].Reasons[0] != d.Rejections[0].Reason):
				t.Errorf("%s: %+v, the shadow has %+v", name, node, d.Rejections)
			}
		}
		if feasible != d.Feasible || best != d.BestTotal || len(got.Nodes) != d.Nodes {
			t.Errorf("%s: %d of %d nodes are feasible, the best has %d; the shadow has %+v", name, feasible, len(got.Nodes), best, d)
		}
	}
}

// TestDisagreementsThatCannotBeWritten ends with an error that names the folder.
func TestDisagreementsThatCannotBeWritten(t *testing.T) {
	s := &snapshots{folder: filepath.Join(t.TempDir(), "gone")}
	d := &shadow.Decision{Pod: "shop/web", Verdict: shadow.Lesser}
	if file := s.keep(d, nil); file != "" || s.err == nil || !strings.Contains(s.err.Error(), `--disagreements "`+s.folder) {
		t.Errorf("file %q, %v", file, s.err)
	}
	if file := s.keep(d, []runtime.Object{build.Node("a")}); file != "" {
		t.Errorf("file %q after an error", file)
	}
}

// TestShadowMetrics serves the latest counts.
func TestShadowMetrics(t *testing.T) {
	m := &shadowMetrics{}
	handler := m.handler()
	scraped := func() string {
		r := httptest.NewRecorder()
		handler.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
		return r.Body.String()
	}
	if text := scraped(); strings.Contains(text, "berth_shadow_bindings_total{") || !strings.Contains(text, `berth_build_info{version="`+app.Version()+`"} 1`) {
		t.Errorf("before anything was counted: %s", text)
	}
	m.set(shadow.Summary{Bindings: 9, Agree: 5, Lesser: 2, Race: 1, Failed: 1, Races: map[string]int{"pods bound": 1}, Pending: 4, Open: 3, Placeable: 6, Unseen: 7, GapSum: 30, MaxGap: 20, Unsearched: 8}, time.Hour)
	text := scraped()
	for _, want := range []string{
		`berth_shadow_bindings_total{verdict="agree"} 5`, `berth_shadow_bindings_total{verdict="lesser"} 2`, `berth_shadow_bindings_total{verdict="race"} 1`,
		`berth_shadow_bindings_total{verdict="contradict"} 0`, `berth_shadow_bindings_total{verdict="failed"} 1`, `berth_shadow_races_total{change="pods bound"} 1`,
		`berth_shadow_pending_pods 4`, `berth_shadow_open_disagreements 3`, `berth_shadow_placeable_total 6`, `berth_shadow_unseen_total 7`,
		`berth_shadow_lesser_points_total 30`, `berth_shadow_lesser_points_max 20`, `berth_shadow_unsearched_total 8`, `berth_shadow_observed_seconds 3600`, `berth_shadow_obstacles 5`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
}

// TestShadowVerdict allows the switch if each part of the rule holds, and names the parts
// that do not.
func TestShadowVerdict(t *testing.T) {
	const week = 7 * 24 * time.Hour
	good := shadow.Summary{Bindings: 41_202, Agree: 30_000, Race: 11_202}
	for _, test := range []struct {
		change   func(s *shadow.Summary)
		observed time.Duration
		want     string
	}{
		{func(*shadow.Summary) {}, week, "Verdict: 7d, 41202 bindings, 0 contradictions: you can switch."},
		{func(*shadow.Summary) {}, week - time.Second, "not yet: observe at least 7 days"},
		{func(s *shadow.Summary) { s.Bindings = 999 }, week, "not yet: observe at least 1000 bindings."},
		{func(s *shadow.Summary) { s.Contradict = 1 }, week, "1 contradiction: not yet: contradictions to explain: 1."},
		{func(s *shadow.Summary) { s.Failed = 2 }, week, "not yet: decisions that failed: 2."},
		{func(s *shadow.Summary) { s.Placeable = 3 }, week, "not yet: pods that Berth would have placed, to explain: 3."},
		{func(s *shadow.Summary) { s.Unsearched = 412 }, week, "you can switch."},
		{func(s *shadow.Summary) { s.Unsearched = 413 }, week, "not yet: disagreements not checked for races: 413."},
		{func(s *shadow.Summary) { s.Lesser = 9_000 }, week, "you can switch."},
	} {
		s := good
		test.change(&s)
		if got := verdictOn(&s, test.observed); !strings.Contains(got, test.want) {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
}
