package app

import (
	"runtime/debug"
	"strings"
	"testing"

	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/metrics/legacyregistry"
)

// TestVersionOfDependency checks that a program with out-of-tree plugins has Berth's
// version, and not its own.
func TestVersionOfDependency(t *testing.T) {
	other := debug.Module{Path: "example.com/scheduler", Version: "v9.9.9"}
	for _, test := range []struct {
		name string
		main debug.Module
		deps []*debug.Module
		want string
	}{
		{"Berth itself", debug.Module{Path: berth, Version: "v1.2.3"}, nil, "v1.2.3"},
		{"Berth from a folder", debug.Module{Path: berth, Version: "(devel)"}, nil, "unknown"},
		{"required", other, []*debug.Module{{Path: "k8s.io/api", Version: "v0.37.1"}, {Path: berth, Version: "v1.2.3"}}, "v1.2.3"},
		{"a fork", other, []*debug.Module{{Path: berth, Version: "v1.2.3", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.2.4"}}}, "v1.2.4"},
		{"a folder", other, []*debug.Module{{Path: berth, Version: "v1.2.3", Replace: &debug.Module{Path: "../berth"}}}, "unknown"},
	} {
		if got := versionOf(&debug.BuildInfo{Main: test.main, Deps: test.deps}); got != test.want {
			t.Errorf("%s: the version is %q, want %q", test.name, got, test.want)
		}
	}
}

// TestKubernetesOfLibraries checks that a program that was linked without a version has
// the version of its libraries, and that a linked version stays.
func TestKubernetesOfLibraries(t *testing.T) {
	libraries := &debug.BuildInfo{Deps: []*debug.Module{{Path: berth, Version: "v1.2.3"}, {Path: "k8s.io/component-base", Version: "v0.37.4"}}}
	fork := &debug.BuildInfo{Deps: []*debug.Module{
		{Path: "k8s.io/component-base", Version: "v0.0.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.37.5"}}}}
	for _, test := range []struct {
		name, linked string
		info         *debug.BuildInfo
		want, minor  string
	}{
		{"linked", "v1.37.1+berth", libraries, "v1.37.1+berth", ""},
		{"not linked", "v0.0.0-master+$Format:%H$", libraries, "v1.37.4+berth", "37"},
		{"a fork", "v0.0.0-master+$Format:%H$", fork, "v1.37.5+berth", "37"},
		{"no build information", "v0.0.0-master+$Format:%H$", nil, "v0.0.0-master+$Format:%H$", ""},
		{"other libraries", "v0.0.0-master+$Format:%H$", &debug.BuildInfo{}, "v0.0.0-master+$Format:%H$", ""},
	} {
		got := kubernetesOf(apimachineryversion.Info{GitVersion: test.linked}, test.info)
		if got.GitVersion != test.want || got.Minor != test.minor {
			t.Errorf("%s: the version is %s, minor %q; want %s, %q", test.name, got, got.Minor, test.want, test.minor)
		}
	}
}

// TestVersionText prints the version for the values true and raw, and nothing for false.
func TestVersionText(t *testing.T) {
	v := apimachineryversion.Info{Major: "1", GitVersion: "v1.37.4+berth"}
	if text, ok := versionText("true", v); !ok || text != "Kubernetes v1.37.4+berth\n" {
		t.Errorf("--version prints %q, %v", text, ok)
	}
	if text, ok := versionText("raw", v); !ok || !strings.Contains(text, `GitVersion:"v1.37.4+berth"`) {
		t.Errorf("--version=raw prints %q, %v", text, ok)
	}
	if text, ok := versionText("false", v); ok {
		t.Errorf("without the flag %q is printed", text)
	}
}

// TestBuildMetric checks that kubernetes_build_info has one series, with the labels of a
// version.
func TestBuildMetric(t *testing.T) {
	for _, v := range []string{"v1.37.4+berth", "v1.37.5+berth"} {
		if err := labelBuild(apimachineryversion.Info{Major: "1", Minor: "37", GitVersion: v}); err != nil {
			t.Fatal(err)
		}
		families, err := legacyregistry.DefaultGatherer.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var labels []string
		for _, family := range families {
			if family.GetName() != "kubernetes_build_info" {
				continue
			}
			for _, metric := range family.GetMetric() {
				for _, label := range metric.GetLabel() {
					if label.GetName() == "git_version" {
						labels = append(labels, label.GetValue())
					}
				}
			}
		}
		if len(labels) != 1 || labels[0] != v {
			t.Errorf("kubernetes_build_info has the versions %v, want %s", labels, v)
		}
	}
}
