// Package trace sends spans of each pod's scheduling to an OpenTelemetry collector.
//
// It takes decisions before the commit, and the results of bindings and preemptions. It
// sends a span for each attempt. Below it are spans for the pod's wait, the decision, and
// the binding or the preemption, which the API server's own spans join. It owns the
// connection to the collector, and the unfinished attempts and preemptions. It runs only
// if tracing is configured, never waits for the collector, and never changes decisions or
// writes.
package trace
