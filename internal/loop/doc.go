// Package loop is the spine: it carries one pod after another from the queue to a
// decision.
//
// It takes changes from ingest and gives decisions to commit. It owns the state, the
// queue and the engine; the goroutine that calls Once is their only user. It never waits
// for the API server. It waits for out-of-tree plugins and extenders, as kube-scheduler
// does. It stands by until it leads, and calls observers at each step.
//
// One goroutine is enough, because scheduling is serial in any case: each decision
// depends on the placements before it. With one owner the hot path has no locks, and no
// event arrives during a decision. So the run is a list of inputs that can be repeated.
// The price: work on this goroutine stops all pods. So events are handled in slices and
// turns have budgets.
//
// A round, Once in loop.go: drain the changes, apply them to the state, wake pods, pop
// one, decide, assume, settle in the queue, give the decision to commit. Example: a new
// pod at 5,000 nodes that is like others takes 2.6 µs of decision.
//
//   - waits.go finds the waiting bindings that a batch of changes touches, by the objects
//     that they name.
//   - roomhold.go reserves room for pod groups that were overtaken (package group,
//     Overtaking).
//   - hints.go resumes the searches of package hints in spare time.
//   - pulse.go: the loop reports each step to its Pulse. The watchdog (app/watchdog.go)
//     ends a leader whose loop completes no round for a minute. During a long decision
//     the watchdog notes the pod in the lease (kube/undecided.go), and the next leader
//     decides about that pod last (queue/last.go).
package loop
