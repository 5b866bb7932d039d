// Package simulate is an in-memory cluster and a virtual clock around the real loop.
//
// It takes profiles, a seed, API objects, and faults to inject; it gives what the scheduler would do: round by round to
// those who step it (scenarios, seeded tests), or all at once, with a summary, to `berth simulate`. It owns the API objects of its
// cluster, the time, and the loop with everything in it. It never decides anything: ingest, queue, engine, loop and
// the outbox of writes are the ones that run in production, and so are the handlers of informers; only the API server, the informers and the clock are stand-ins. It never reads the real clock and never
// sleeps, and where the loop runs on a goroutine of its own (ahead.go) what it sees does not depend on which is faster, so the same input and seed give the same result; but calls of plugins from outside that are not Played run as they do in production, and what such
// plugins do need not repeat.
package simulate
