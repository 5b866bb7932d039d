// Package simulate is an in-memory cluster and a virtual clock around the real loop.
//
// It takes profiles, a seed, API objects, and faults to inject. It returns the
// scheduler's actions: round by round for scenarios and seeded tests, or all at once,
// with a summary, for `berth simulate`. It owns the API objects of its cluster, the time,
// and the loop with all its state.
//
// It never decides anything. Ingest, queue, engine, loop, the outbox of writes and the
// handlers of informers are the production code. Only the API server, the informers and
// the clock are stand-ins.
//
// It never reads the real clock and never sleeps. If the loop runs on a goroutine of its
// own (ahead.go), its input does not depend on which goroutine is faster. So the same
// input and seed give the same result. The exception is external plugins: calls that are
// not Played run as in production and need not repeat.
package simulate
