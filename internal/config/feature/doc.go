// Package feature holds the feature gates of Kubernetes and the versions that a component can emulate.
//
// It takes the flags --feature-gates, --emulated-version and --min-compatibility-version; it gives the state of each gate. It owns the table of
// Kubernetes' own gates (gates.txt); those of client-go, apiserver and component-base come from these libraries. It never defines what a gate
// does: package config does, and in the core only config reads gates.
//
// The table and the libraries together are the gates of kube-scheduler 1.37.1: those of all components, whether a scheduler uses them or not, so
// that a command line that other components share is accepted here.
package feature
