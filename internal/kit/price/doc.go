// Package price counts the work that decisions cost.
//
// It takes amounts of work from engine, state and plugins. It returns the units of each
// turn by kind of work, and reports when the budget of a turn is used up. It owns only
// its counts and reads no clock: the same inputs cost the same units, so a replay repeats
// them. A unit is about a nanosecond on ordinary hardware; BenchmarkUnits in package
// engine prints units beside time.
//
// A single pod can make its turn cost a thousand ordinary turns, for example with 10,000
// affinity terms, and all other pods wait for it. So the loop begins each turn with a
// budget for the round and ends it with the bill.
//
// Work that can stop checks Meter.IsOver, keeps its results and returns
// plugin.ErrUnfinished. Then the pod or group returns to its place in the queue
// (plan.Unfinished) without an attempt, backoff, event or condition, and the turn
// continues in a later round. Package queue charges the namespace (queue/account.go).
// design/limits.md has the limits and their tests.
package price
