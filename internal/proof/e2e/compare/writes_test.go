package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/report"
	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
)

// tiny is the scale of the workloads with counted writes: 20 nodes.
const tiny = 0.004

// besideMeasured is the number of pods of a churn, all created before the measured ones.
const besideMeasured = 12

// maxWrites is the time limit for a contender's writes.
const maxWrites = time.Minute

// written counts the API server's writes by verb, resource, subresource and group.
type written map[string]int

// The kinds of write.
const (
	bindings  = "POST pods/binding"
	deletions = "DELETE pods"
	statuses  = "PATCH pods/status"
	events    = "POST events in events.k8s.io"
	// The finalizer of a claim, and its devices with its reservation.
	finalizers  = "PATCH resourceclaims in resource.k8s.io"
	allocations = "PATCH resourceclaims/status in resource.k8s.io"
)

// TestWritesOfContenders counts the API server's writes for each contender in the
// workloads of the binder. The binder and Berth make exactly the necessary writes.
// kube-scheduler makes these, too, and at times a few more, when it retries a preemptor
// before it has room.
func TestWritesOfContenders(t *testing.T) {
	bin := os.Getenv(binEnv)
	if bin == "" {
		t.Logf("%s is not set: this test needs built binaries; run `make e2e`", binEnv)
		return
	}
	c := &comparison{options: options{bin: bin, scale: tiny}, folder: t.TempDir(), progress: io.Discard}
	log, err := os.Create(filepath.Join(c.folder, "log"))
	if err != nil {
		t.Fatal(err)
	}
	c.log = log
	defer log.Close()
	preemption, burst, large := tinyOf(t, "PreemptionAsync"), tinyOf(t, "PreemptionBurst"), tinyOf(t, "Unschedulable/5kNodes/100Init/10kPods")
	devices := tinyOf(t, "SchedulingWithResourceClaimTemplate/5000pods_500nodes")
	const probes, n = 1, besideMeasured
	m, d := preemption.Measured.Count, devices.Measured.Count
	for _, rows := range [][]writesRow{
		{ // all have the same nodes and namespaces
			{preemption, written{bindings: m + n + probes, deletions: 3 * n, statuses: 3*n + n, events: m + n + probes + 3*n + n}},
			{burst, written{bindings: m + probes, deletions: 3 * m, statuses: 3*m + m, events: m + probes + 3*m + m}},
			{large, written{bindings: large.Measured.Count + probes, statuses: n, events: large.Measured.Count + probes + n}},
		},
		{{devices, written{bindings: d + probes, statuses: d, finalizers: d, allocations: d, events: d + probes}}},
	} {
		st, err := c.openStage(t.Context(), rows[0].scene.Site)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			if err := st.furnish(t.Context(), c, row.scene); err != nil {
				t.Error(err)
				break
			}
			for _, who := range contenders() {
				if !who.plays(row.scene) || who.name == report.KubeScheduler && row.scene == burst {
					continue
				}
				t.Run(who.name+" in "+row.scene.Name, func(t *testing.T) {
					row.check(t, who, countWrites(t, c, st, row.scene, who, row.want), row.scene == large || row.scene == devices)
				})
			}
		}
		if err := st.close(); err != nil {
			t.Error(err)
		}
	}
}

// writesRow is a scene and its necessary writes.
type writesRow struct {
	scene *scene.Scene
	want  written
}

// check compares a contender's writes with the necessary ones. If not exact,
// kube-scheduler may make more writes other than bindings.
func (r writesRow) check(t *testing.T, who contender, got written, exact bool) {
	t.Helper()
	if who.name != report.KubeScheduler && !maps.Equal(got, r.want) {
		t.Errorf("wrote %v, want %v", got, r.want)
	}
	for kind, want := range r.want {
		if exact := exact || kind == bindings; got[kind] < want || exact && got[kind] != want {
			t.Errorf("%d of %s, want %d", got[kind], kind, want)
		}
	}
	t.Logf("wrote %v; the pods need %v", got, r.want)
}

// tinyOf returns the only workload of a name, tiny.
func tinyOf(t *testing.T, name string) *scene.Scene {
	t.Helper()
	scenes := scene.Workloads(name, tiny)
	if len(scenes) != 1 {
		t.Fatalf("%s stands for %d workloads", name, len(scenes))
	}
	return scenes[0]
}

// countWrites counts the writes in a turn of a contender, which ends when no more writes
// follow. The harness's own writes do not count.
func countWrites(t *testing.T, c *comparison, st *stage, s *scene.Scene, who contender, want written) written {
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	turn := &take{comparison: c, stage: st, scene: s, who: who, sent: make([]time.Time, s.Measured.Count)}
	must(st.refresh(ctx, s, true))
	before, err := readWrites(ctx, st)
	must(err)
	must(turn.ready(ctx))
	defer turn.process.End()
	for _, churn := range s.Churn {
		for i := range besideMeasured {
			must(churn.Step(ctx, st.client, i))
		}
	}
	must(turn.create(ctx))
	// No signal marks a contender's last write, so it gets some time after it has made
	// all necessary ones.
	var got written
	for quiet, until := 0, time.Now().Add(maxWrites); quiet < 4 && time.Now().Before(until); quiet++ {
		time.Sleep(200 * time.Millisecond)
		now, err := readWrites(ctx, st)
		must(err)
		maps.DeleteFunc(now, func(kind string, n int) bool { now[kind] = n - before[kind]; return n == before[kind] })
		if !maps.Equal(now, got) || slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(kind string) bool { return now[kind] < want[kind] }) {
			quiet = 0
		}
		got = now
		if failure := turn.process.Failure(); failure != nil {
			t.Fatalf("%s ended: %v\n%s", who.name, failure, turn.process.Log())
		}
	}
	turn.process.End()
	must(st.clear(ctx, s))
	return got
}

// Lines and labels of the API server's metrics.
var (
	requestTotal = regexp.MustCompile(`(?m)^apiserver_request_total\{([^}]*)\} (\S+)$`)
	labelValue   = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// readWrites returns the API server's writes so far to pods, claims and events. Creations
// of pods and claims are left out: the harness and the controller manager make them.
// Updates and patches of a claim count as one kind, because kube-scheduler sends the
// whole claim.
func readWrites(ctx context.Context, st *stage) (written, error) {
	body, err := st.client.Discovery().RESTClient().Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return nil, fmt.Errorf("read the metrics of the API server: %w", err)
	}
	w := written{}
	for _, line := range requestTotal.FindAllStringSubmatch(string(body), -1) {
		label := map[string]string{}
		for _, pair := range labelValue.FindAllStringSubmatch(line[1], -1) {
			label[pair[1]] = pair[2]
		}
		if label["verb"] == "PUT" && label["resource"] == "resourceclaims" {
			label["verb"] = "PATCH"
		}
		kind := strings.TrimSuffix(label["verb"]+" "+label["resource"]+"/"+label["subresource"], "/")
		if label["group"] != "" {
			kind += " in " + label["group"]
		}
		isWrite := slices.Contains([]string{"POST", "PUT", "PATCH", "DELETE"}, label["verb"]) && strings.HasPrefix(label["code"], "2")
		created := label["verb"] == "POST" && label["subresource"] == "" && label["resource"] != "events"
		if !isWrite || created || !slices.Contains([]string{"pods", "events", "resourceclaims"}, label["resource"]) {
			continue
		}
		n, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			return nil, fmt.Errorf("read the metrics of the API server: %w", err)
		}
		w[kind] += int(n)
	}
	return w, nil
}
