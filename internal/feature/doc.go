// Package feature knows the feature gates of Kubernetes and the versions that a component can emulate.
//
// It takes the flags --feature-gates, --emulated-version and --min-compatibility-version; it gives, for each gate, whether it is
// on. It owns the table of the gates that are Kubernetes' own (gates.txt); those of client-go, apiserver and component-base come
// from these libraries. It never says what a gate does: package config does, and is the only one that asks.
//
// The table and the libraries together are what kube-scheduler 1.37.1 knows: gates of all components, whether a scheduler has a
// use for them or not, so that a command line that other components share is accepted here.
package feature
