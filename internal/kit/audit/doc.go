// Package audit collects violations of invariants.
//
// It takes sentences from the Audit methods of state, queue, engine, loop and outbox,
// which recount from nothing what these keep up to date, and returns one error. It owns
// nothing, and never decides what an invariant is: each stands next to its field.
//
// The simulation and the property tests call the audits after every change. SIGUSR2 calls
// them once and logs violations. With --berth-audit they run after every round, and the
// first violation ends the process. A table of corrupted values tests each check
// (audit_test.go in each package). Facts that follow from other fields are checked there
// and nowhere else; the simulation's auditor compares pods, nodes and places with the
// API's objects.
package audit
