package config

import (
	"errors"
	"runtime/debug"
	"slices"

	"github.com/berth-scheduler/berth/framework"
)

// kubernetes is the module whose types plugins may assert.
const kubernetes = "k8s.io/kubernetes"

// CheckProgram rejects this program if it has plugins, links kube-scheduler's packages,
// and passes values of Berth's types to plugins.
func CheckProgram(registered []Registered, shown *framework.Types) error {
	program, _ := debug.ReadBuildInfo()
	if shown != nil || len(registered) == 0 {
		return nil
	}
	return checkTypes(program)
}

// checkTypes rejects a program that links kube-scheduler's packages and passes values of
// Berth's types to plugins. Plugins that assert kube-scheduler's types would silently do
// nothing.
func checkTypes(program *debug.BuildInfo) error {
	links := func(m *debug.Module) bool { return m.Path == kubernetes }
	if program == nil || !slices.ContainsFunc(program.Deps, links) {
		return nil
	}
	return errors.New("this program links packages of " + kubernetes + ", whose types plugins may assert: " +
		"add app.WithTypes(compat.Types()) to the options of NewSchedulerCommand, with package github.com/berth-scheduler/berth/framework/compat")
}
