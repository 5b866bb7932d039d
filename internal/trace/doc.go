// Package trace tells an OpenTelemetry collector of each pod's way through the scheduler.
//
// It takes decisions on their way to the commit, and how bindings end; it gives spans: one for each attempt, and below it how long the
// pod waited, what the decision took, and the binding, which the API server's own spans join. It owns the connection to the collector
// and the attempts that are not over yet. It is there only where somebody asked for it, never waits for the collector, and never
// changes what is decided or written.
package trace
