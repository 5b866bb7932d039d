package app

import (
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	componentmetrics "k8s.io/component-base/metrics"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/external/framework"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

// While the scheduler runs, garbage is collected less often, unless GOGC is set.
func TestRarerCollection(t *testing.T) {
	was := debug.SetGCPercent(123)
	defer debug.SetGCPercent(was)
	now := func() int {
		percent := debug.SetGCPercent(-1)
		debug.SetGCPercent(percent)
		return percent
	}
	for _, test := range []struct {
		environment string
		want        int
	}{{"", 200}, {"50", 123}} {
		t.Setenv("GOGC", test.environment)
		back := rarerCollection()
		if got := now(); got != test.want {
			t.Errorf("GOGC=%s: %d, want %d", test.environment, got, test.want)
		}
		if back(); now() != 123 {
			t.Errorf("GOGC=%s: afterwards it is %d", test.environment, now())
		}
	}
}

// The usage of a process is the system's value, in user and in system mode.
func TestUsage(t *testing.T) {
	spent := func() time.Duration {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	before := spent()
	got := usageSoFar()
	if after := spent(); !got.known || got.cpu < before || got.cpu > after {
		t.Errorf("%v of CPU, want from %v to %v", got.cpu, before, after)
	}
	if got.maxMemory < 10<<20 || got.maxMemory > 100<<30 {
		t.Errorf("%d bytes of memory", got.maxMemory)
	}
}

// A build without a recorded version has the version "unknown".
func TestVersion(t *testing.T) {
	if got := Version(); got != "unknown" {
		t.Errorf("the version is %q", got)
	}
}

func TestCommit(t *testing.T) {
	if got := Commit(); got != "unknown" {
		t.Errorf("the commit is %q", got)
	}
	for _, row := range []struct{ modified, want string }{{"false", "abc"}, {"true", "abc+dirty"}} {
		info := &debug.BuildInfo{Main: debug.Module{Path: berth}, Settings: []debug.BuildSetting{
			{Key: "vcs.modified", Value: row.modified}, {Key: "vcs.revision", Value: "abc"}, {Key: "GOOS", Value: "linux"},
		}}
		if got := commitOf(info); got != row.want {
			t.Errorf("modified %s: the commit is %q, want %q", row.modified, got, row.want)
		}
		if info.Main.Path = "example.com/scheduler"; commitOf(info) != unknown {
			t.Errorf("another main module's commit is taken for Berth's: %q", commitOf(info))
		}
	}
}

// Plugins may call before queue and bindings exist: no pod waits then. Later calls take
// effect.
func TestHostIsJoined(t *testing.T) {
	h := &host{}
	key, nomination := model.PodKey{Namespace: "ns", Name: "p"}, model.NominationRequest{UID: "u", NodeName: "n"}
	nomination.Pod = key
	if h.current() != nil || !h.activate(key) || !h.nominate(nomination) {
		t.Error("a host that is not joined has bindings, or refuses")
	}
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	changes, bindings := ingest.New(c.Compile()), &commit.Commit{}
	h.join(changes, bindings)
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID, pod.Spec.SchedulerName = key.Namespace, key.Name, "u", v1.DefaultSchedulerName
	changes.Set(pod)
	changes.Drain()
	if h.current() != bindings || !h.activate(key) || !h.nominate(nomination) {
		t.Error("a host that is joined has no bindings, or refuses")
	}
	nominated, activated := changes.Asked()
	if !slices.Equal(activated, []model.PodKey{key}) || !slices.Equal(nominated, []model.NominationRequest{nomination}) {
		t.Errorf("asked for %v and %v", activated, nominated)
	}
}

// Shells complete the names of configuration files.
func TestCompletion(t *testing.T) {
	if got := NewSubcommand().Flag("config").Annotations[cobra.BashCompFilenameExt]; !slices.Equal(got, []string{"yaml", "yml", "json"}) {
		t.Errorf("--config is completed by %q", got)
	}
}

// When a scheduler has ended, signals have their default effect again.
func TestSignalsAreRestored(t *testing.T) {
	t.Parallel()
	if got := runAs(t, restored); got.code != -1 { // as for a process that a signal has ended
		t.Errorf("exit code %d", got.code)
	}
}

// Plugin calls are measured: a batch of calls by its average.
func TestPluginsAreMeasured(t *testing.T) {
	registry := componentmetrics.NewKubeRegistry()
	all, err := metrics.New(metrics.Config{Register: registry.Register, Enabled: func(string) bool { return true }, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	measured{all.External}.Ran("Mine", framework.Filter, "Success", 4, 8*time.Second)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "scheduler_plugin_execution_duration_seconds" {
			continue
		}
		got := family.GetMetric()[0]
		var labels []string
		for _, label := range got.GetLabel() {
			labels = append(labels, label.GetName()+"="+label.GetValue())
		}
		if got.GetHistogram().GetSampleSum() != 2 || got.GetHistogram().GetSampleCount() != 1 || !slices.Equal(labels, []string{"extension_point=Filter", "plugin=Mine", "status=Success"}) {
			t.Errorf("%v", got)
		}
		return
	}
	t.Error("nothing was measured")
}
