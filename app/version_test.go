package app

import (
	"runtime/debug"
	"testing"
)

// TestVersionOfDependency checks that a program with plugins of its own has Berth's version, and not
// its own.
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
