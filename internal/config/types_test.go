package config

import (
	"runtime/debug"
	"strings"
	"testing"
)

// TestTypesOfLinkedPackages checks that a program with packages of kube-scheduler is
// rejected unless its plugins get values of these packages' types.
func TestTypesOfLinkedPackages(t *testing.T) {
	module := func(path string) *debug.Module { return &debug.Module{Path: path, Version: "v1.37.1"} }
	if err := checkTypes(&debug.BuildInfo{Deps: []*debug.Module{module("k8s.io/kube-scheduler"), module("k8s.io/api")}}); err != nil {
		t.Errorf("without these packages the error is %v", err)
	}
	if err := checkTypes(nil); err != nil {
		t.Errorf("without build information the error is %v", err)
	}
	err := checkTypes(&debug.BuildInfo{Deps: []*debug.Module{module("k8s.io/api"), module("k8s.io/kubernetes")}})
	if err == nil || !strings.Contains(err.Error(), "app.WithTypes(compat.Types())") {
		t.Errorf("with these packages the error is %v", err)
	}
}
