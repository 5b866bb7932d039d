// Package commit carries decisions out: it binds, evicts, and writes conditions and
// events.
//
// It takes decisions. It sends bindings, the steps of plugins, conditions and events to a
// Writer, and returns the result of each binding to the loop. It owns the pending writes:
// the Outbox, a state machine without clock, goroutine or client that returns the next
// write and the time of the next retry, and a fixed number of goroutines that send. So
// the simulation runs the Outbox as it is. It never decides where a pod goes. It makes
// the loop wait only through Room, when too many bindings are pending.
//
// # A binding
//
// A placement names its holds (what it reserves besides room) and its steps: calls and
// writes of plugins at Reserve, Permit, PreBind, Bind and PostBind. A binding is a state
// machine: starts, reserves, permits, pre-binds, binds, post-binds, over. phase.go has
// the table of its moves, binding.go its way from top to bottom. A failed binding undoes
// its steps, last first, and then answers the loop. A placement without steps goes
// straight to binds.
//
// Example: a pod with an unbound PersistentVolumeClaim. The state assumes the pod and the
// volume. PreBind writes the volume and waits; the binding then holds no worker and no
// goroutine. A batch of changes includes the claim, now bound. The loop finds the binding
// by the object's name (loop/waits.go), calls VolumeBinding, and allows it. The pod is
// bound with one of 64 workers. A batch of 10,000 changes to other objects costs this
// binding nothing (TestUnrelatedChangesAskNobody). If the claim is bound elsewhere, the
// plugin rejects, the steps are undone and the pod backs off.
//
// Every binding is answered, also at a stop. If the outcome is unknown, its room stays
// reserved, and the API server is polled until it answers or the watch settles it.
// Timeouts are on the Outbox's timeline. A binding that was not sent can be cancelled. A
// pod rejected at Permit is parked under the plugin; events that it missed meanwhile
// count.
//
// # Learned writes
//
// The watch is slower than the answer to a write. If a write is marked to be learned
// (plan.Write.Learn), the object in the answer goes through ingest to the state before
// any other result (step.go). So when the result of the binding arrives, the state has
// the new object, and no hold is released whose object is not yet in use. Older versions
// from the watch are ignored (state/learned.go). A learned version only replaces an older
// version of the same object, except for a claim that a placement creates. Such a write
// is retried until its outcome is clear. A conflict with our own earlier write is
// recognised by reading the object (plan.Write.Stored).
//
// # Calls of out-of-tree plugins
//
// Each call of a step runs once on its own goroutine (calling.go) and may take minutes.
// The Outbox reports its start and the end of its context, so the simulation plays calls
// in virtual time. A cancelled binding waits for its running call. At Bind a call may
// leave the pod to the next plugin, and finally to our binding. If the call fails, the
// API server is asked for the pod's node before room is released. Calls at Reserve
// prepare (PreBindPreFlight), and Unreserve undoes them before the loop has its answer. A
// stop waits for calls for the time of Drain.
//
// Waiting pods (waiting.go) are handles of one attempt. No plugin code runs under the
// Outbox's lock. If a plugin waits at Permit or works at PreBind, the chosen node is
// first written as nominatedNodeName, among conditions. The first out-of-tree call at
// PreBind waits for that write, because the plugin may read it; an unsent nomination is
// then sent with the bindings. A failed binding takes the nomination back.
//
// # Evictions and other writes
//
// For each victim its condition is written, then it is deleted, then an event states the
// reason (preemption.go). The last victim leaves after the others. A victim whose binding
// was not sent is not deleted: its binding is cancelled. A victim of two preemptions is
// evicted once and answers both.
//
// Writes of PostFilter plugins (effect.go) go before conditions; equal writes of several
// decisions are sent once. A write that releases an object (plan.Write.GivesBack) is
// assumed until it ends: pods that use the object are gated meanwhile. After a takeover,
// writes of the previous process may arrive for a minute, and the API server refuses a
// release if the object changed. So a placement that relies on an existing allocation
// first changes the claim in its version, as a fence. design/failures.md lists all
// writes.
//
// # Conditions and events
//
// Bindings come first, by the priority of their pods; so do evictions and other writes of
// decisions. Conditions and events are reports. A flood of one kind must not delay
// another (budget.go):
//
//   - In flight: at most 32 of 64 workers send reports, at most three quarters of these
//     conditions, or events. One worker takes reports before bindings, so reports
//     progress under endless bindings.
//   - Per second: 3,000 (--berth-reports-per-second). If all kinds wait, half is for
//     events about bindings, three eighths for conditions, on which autoscalers act, and
//     the rest for warnings. Unused shares go to the others. While bindings are sent, 20
//     repeat counts a second are written.
//   - Merged: only the newest condition of a pod is written, and only if it differs from
//     the stored or sent one. A warning repeated while its write waits costs no further
//     write.
//   - Bounded: beyond 100,000 of a kind the oldest are dropped
//     (berth_writes_dropped_total).
//
// Repeated events form series (event.go) by client-go's rules: an event about one version
// of a pod is created, then patched at the first repetition, every 30 minutes, and after
// 6 minutes without one. At most 100,000 series are kept. A Scheduled event is written
// once.
package commit
