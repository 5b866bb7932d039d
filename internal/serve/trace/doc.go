// Package trace sends spans of each pod's scheduling to an OpenTelemetry collector.
//
// It takes decisions before the commit, and the results of bindings and preemptions; it gives spans: one for each attempt, and below it how long the
// pod waited, what the decision took, and the binding or the preemption, which the API server's own spans join. It owns the connection to the
// collector and the attempts and preemptions that are not over yet. It runs only if tracing is configured, never waits for the collector, and never
// changes what is decided or written.
package trace
