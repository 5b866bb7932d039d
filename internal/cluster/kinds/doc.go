// Package kinds is the table of the kinds of API object that scheduling can read.
//
// It takes API objects and returns the properties of their kind: the resource to watch,
// the fields that are kept, which versions are equal for scheduling, the change that a
// version makes, and the events that can follow. It owns the table, and the memory that
// trimmed objects share. It never calls an API server, and never decides which kinds are
// watched: plugins list the kinds that they read, and package config collects the lists.
//
// Pods and nodes are rows like all others. Packages kube, ingest, simulate and explain
// all use this table, so no second list can disagree with it.
//
// Objects are trimmed while they are decoded, and are in memory once. If an object is
// listed again, as after a restart of the API server, the informer keeps the object that
// it and the state hold already (Row.Held), and the new copy is garbage. Example: a
// re-list of 10,000 pods adds 4 bytes per pod; without this it added 1,636. The end of a
// pod that leaves its node, or of an object that was replaced by another, is passed on
// first (Row.Replaces), because ingest may skip intermediate versions. An object that
// cannot be compiled is set aside, failing closed (malformed.go).
//
// A kind that no enabled plugin reads is not watched. Namespaces are for
// InterPodAffinity; services and controllers for PodTopologySpread with default
// constraints; storage kinds for the volume plugins; device kinds for DynamicResources.
// The simulation hides the others too, so a plugin that reads an undeclared kind fails
// the tests that compare it with package oracle. As soon as a profile enables an
// out-of-tree plugin, or an extender is configured, objects are kept whole.
//
// A new kind takes a constant in package model, a row here, a store in package state, and
// Reads in the plugin. For simulations from files it also takes a row in package
// manifest, which reads more kinds, such as priority classes, and does with them what an
// API server would. Tests fail while one of these is missing.
package kinds
