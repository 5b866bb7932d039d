package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/report"
	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
)

// binEnv names the folder with the binaries berth and devcluster; `make e2e` builds them
// and sets it.
const binEnv = "BERTH_E2E_BIN"

// TestMain lets the test binary run as the contenders that are part of this program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if _, ok := parts()[os.Args[1]]; ok {
			os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
		}
	}
	os.Exit(m.Run())
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	empty := t.TempDir()
	rounds := filepath.Join(empty, "rounds.csv")
	if err := os.WriteFile(rounds, []byte("a,b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		args string
		want string
	}{
		{"--nonsense", "unknown flag: --nonsense"},
		{"x", `unexpected argument "x"`},
		{"--nodes 2", "--nodes 2: must be at least 3"},
		{"--pods 0", "--pods 0: must be at least 1"},
		{"--running -1", "--running -1: must be at least 0"},
		{"--nodes 10 --pods 1000", "--running and --pods: 31000 pods are more than 10 nodes have room for"},
		{"--scale 0", "--scale 0: must be greater than 0"},
		{"--round-limit 0s", "--round-limit 0s: must be greater than 0"},
		{"--calm-limit -1s", "--calm-limit -1s: must be at least 0"},
		{"-o xml", `--output "xml": must be table, json or yaml`},
		{"--resume", "--resume: needs --csv"},
		{"--contenders me", `--contenders "me": must be binder, kube-scheduler or berth`},
		{"--contenders berth,berth", `--contenders "berth": is named twice`},
		{"--shapes round", `--shapes: there is no "round"; there are plain, node-affinity`},
		{"--workloads Scheduling", `--workloads: there is no "Scheduling"; there are SchedulingBasic/5000Nodes_10000Pods`},
		{"--shapes none", "--shapes and --workloads: are both none"},
		{"--bin " + empty, "`make bin/devcluster` builds it"},
	} {
		var out, err strings.Builder
		code := run(strings.Fields(test.args), &out, &err)
		if code != exitUsage || !strings.Contains(err.String(), test.want) {
			t.Errorf("%s: exit code %d and\n%s\nwant %d and %q", test.args, code, err.String(), exitUsage, test.want)
		}
	}
}

func TestQuickLeavesWhatWasGiven(t *testing.T) {
	o := options{nodes: 77, pods: 5000, largeNodes: 15000}
	o.makeQuick(func(flag string) bool { return flag == "nodes" })
	if o.nodes != 77 || o.pods != 500 || o.largeNodes != 0 {
		t.Errorf("got %d nodes, %d pods, %d nodes at large", o.nodes, o.pods, o.largeNodes)
	}
}

func TestListNeedsNoBinaries(t *testing.T) {
	var out, err strings.Builder
	if code := run([]string{"--list", "--bin", t.TempDir()}, &out, &err); code != 0 {
		t.Fatalf("exit code %d: %s", code, err.String())
	}
	for _, want := range []string{"shape     anti-affinity\n", "5000 nodes, 1000 pods before, 10000 to place", "500 nodes, 0 pods before, 2500 to place"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
}

// TestComparison runs tiny scenes: a shape, workloads with churn, many namespaces,
// preemption, volumes, devices and gangs, and a restart with Berth and the binder. Then
// it resumes from the file that they wrote.
func TestComparison(t *testing.T) {
	bin := os.Getenv(binEnv)
	if bin == "" {
		t.Logf("%s is not set: this test needs built binaries; run `make e2e`", binEnv)
		return
	}
	folder := t.TempDir()
	csv, svg := filepath.Join(folder, "rounds.csv"), filepath.Join(folder, "chart.svg")
	args := []string{
		"--bin", bin, "--contenders", "binder,berth", "--nodes", "30", "--large-nodes", "0", "--pods", "60", "--running", "0,90", "--rounds", "1",
		"--shapes", "mixed", "--workloads", "SchedulingDeletedPodsWithFinalizers,ManyTenants,WaitingForRoom,PreemptionAsync,WaitForFirstConsumerLocal," +
			// the measurements do not matter
			"SchedulingWithResourceClaimTemplate/5000pods_500nodes,SchedulingWithResourceClaimTemplate/full_500nodes,ExtendedResource/Explicit_25classes_5000pods_500nodes,Gangs/625GangsOf8,Restart", "--scale", "0.005", "--calm-limit", "0s",
		"-o", "json", "--csv", csv, "--svg", svg,
	}
	var out, progress strings.Builder
	if code := run(args, &out, &progress); code != 0 {
		t.Fatalf("exit code %d\n%s", code, progress.String())
	}
	check := func(text string) {
		t.Helper()
		var d report.Document
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		var got []string
		for _, c := range d.Cases {
			for _, who := range c.Contenders {
				got = append(got, c.Name+" "+who.Name)
				if who.Rounds != 1 || who.FirstBindSeconds <= 0 || who.PeakMiB <= 0 || c.Kind != "restart" && (who.PodsPerSecond <= 0 || who.ServerMillisPerPod <= 0 || who.LostEvents != 0) {
					t.Errorf("%s at %s: %+v", who.Name, c.Name, who)
				}
			}
		}
		want := "mixed binder, mixed berth, mixed binder, mixed berth, SchedulingDeletedPodsWithFinalizers/5000Node_5000DeletingPods berth, " +
			"ManyTenants/1000Namespaces berth, WaitingForRoom/10000Waiting berth, " +
			"PreemptionAsync/5000Nodes_AsyncAPICallsEnabled binder, PreemptionAsync/5000Nodes_AsyncAPICallsEnabled berth, "
		var notRun []report.NotRun
		for _, name := range []string{
			"WaitForFirstConsumerLocal/5000Volumes", "SchedulingWithResourceClaimTemplate/5000pods_500nodes", "SchedulingWithResourceClaimTemplate/full_500nodes",
			"ExtendedResource/Explicit_25classes_5000pods_500nodes", "Gangs/625GangsOf8",
		} {
			s := scene.Workloads(name, 1)[0]
			if s.Answer != nil || s.Kind == scene.Shape {
				want += name + " binder, "
			}
			if s.Needs == "" {
				want += name + " berth, "
			} else {
				notRun = append(notRun, report.NotRun{Name: name, Needs: s.Needs, Who: report.Berth})
			}
		}
		want += "Restart/100000Running lister, Restart/100000Running berth"
		if strings.Join(got, ", ") != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if !slices.Equal(d.NotRun, notRun) {
			t.Errorf("not run are %+v, want %+v", d.NotRun, notRun)
		}
	}
	check(out.String())
	if text, err := os.ReadFile(svg); err != nil || !strings.HasPrefix(string(text), "<svg ") {
		t.Errorf("the chart is %.20q, %v", text, err)
	}
	out.Reset()
	progress.Reset()
	if code := run(append(args, "--resume"), &out, &progress); code != 0 || strings.Contains(progress.String(), "starting") {
		t.Errorf("going on from a full file: exit code %d\n%s", code, progress.String())
	}
	check(out.String())
}
