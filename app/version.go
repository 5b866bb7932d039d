package app

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/version"
	"k8s.io/component-base/version/verflag"
)

// berth is the module of this package.
const berth = "github.com/berth-scheduler/berth"

// unknown is the version or commit of a build that did not record one.
const unknown = "unknown"

// Version returns Berth's version: a release, or a commit between releases. It is
// "unknown" if the build did not record a version, as in a build outside of a git clone.
// In a program with out-of-tree plugins, it is the version of Berth that the main module
// requires.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	module := &info.Main
	for _, m := range info.Deps {
		if m.Path == berth {
			module = m
		}
	}
	if module.Replace != nil {
		module = module.Replace
	}
	if module.Version == "" || module.Version == "(devel)" {
		return unknown
	}
	return module.Version
}

// Commit returns the commit of this build, with "+dirty" if files had changed since. It
// is "unknown" if the build did not record a commit, as for a downloaded module.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return commitOf(info)
}

func commitOf(info *debug.BuildInfo) string {
	// The commit of another main module is not Berth's.
	if info.Main.Path != berth {
		return unknown
	}
	hash, changed := unknown, false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			hash = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if changed {
		hash += "+dirty"
	}
	return hash
}

// unlinked is the prefix of component-base's version in a program that was linked without
// a version.
const unlinked = "v0.0.0-master"

// kubernetesOf returns the version of Kubernetes that a program replaces: the linked
// version if the build set one. Otherwise, as in a program with out-of-tree plugins, the
// libraries' version decides: v0.37.1 of component-base belongs to Kubernetes v1.37.1.
func kubernetesOf(linked apimachineryversion.Info, info *debug.BuildInfo) apimachineryversion.Info {
	if !strings.HasPrefix(linked.GitVersion, unlinked) || info == nil {
		return linked
	}
	for _, m := range info.Deps {
		if m.Path != "k8s.io/component-base" {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		if release, ok := strings.CutPrefix(m.Version, "v0."); ok {
			minor, _, _ := strings.Cut(release, ".")
			linked.Major, linked.Minor, linked.GitVersion = "1", minor, "v1."+release+"+berth"
			linked.GitCommit = unknown
		}
	}
	return linked
}

// kubernetesVersion returns the version of Kubernetes that this program replaces.
func kubernetesVersion() apimachineryversion.Info {
	info, _ := debug.ReadBuildInfo()
	return kubernetesOf(version.Get(), info)
}

// versionText returns the output of --version and --version=raw; ok is false for other
// values of the flag.
func versionText(flag string, v apimachineryversion.Info) (text string, ok bool) {
	switch flag {
	case string(verflag.VersionTrue):
		return fmt.Sprintf("Kubernetes %s\n", v), true
	case string(verflag.VersionRaw):
		return fmt.Sprintf("%#v\n", v), true
	}
	return "", false
}

// labelBuild corrects the labels of kubernetes_build_info. The metric is built before
// main, with the version that the program was linked with.
func labelBuild(v apimachineryversion.Info) error {
	gauge := metrics.NewGaugeVec(&metrics.GaugeOpts{
		Name: "kubernetes_build_info", Help: buildHelp, StabilityLevel: metrics.BETA,
	}, []string{"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform"})
	var there prometheus.AlreadyRegisteredError
	if err := legacyregistry.Register(gauge); errors.As(err, &there) {
		if known, ok := there.ExistingCollector.(*metrics.GaugeVec); ok {
			gauge = known
		}
	} else if err != nil {
		return err
	}
	gauge.Reset()
	gauge.WithLabelValues(v.Major, v.Minor, v.GitVersion, v.GitCommit, v.GitTreeState, v.BuildDate, v.GoVersion, v.Compiler, v.Platform).Set(1)
	return nil
}

// buildHelp must equal component-base's text: metrics of one name need the same help.
const buildHelp = "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, " +
	"and compiler from which Kubernetes was built, and platform on which it is running."
