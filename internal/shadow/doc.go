// Package shadow compares the bindings of another scheduler with what Berth would have decided.
//
// It takes changes of the cluster in the order in which the watches show them, and the time; it gives a Decision about each binding of a pod that it saw
// pending, about pods that stay pending although Berth finds a node for them, and a Summary. It owns a state, an engine, the objects of the cluster and the
// last changes, which it can undo. It never writes to the cluster, starts a goroutine or reads a clock.
package shadow
