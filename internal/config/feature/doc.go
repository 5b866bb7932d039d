// Package feature holds the feature gates of Kubernetes and the versions that a component
// can emulate.
//
// It takes the flags --feature-gates, --emulated-version and --min-compatibility-version,
// and returns the state of each gate. It owns the table of Kubernetes' own gates
// (gates.txt); the gates of client-go, apiserver and component-base come from these
// libraries. It never defines the effect of a gate: package config does, and in the core
// only config reads gates.
//
// The table and the libraries together are the gates of kube-scheduler 1.37.1. They
// include the gates of all components, so that a command line shared with other
// components is accepted.
package feature
