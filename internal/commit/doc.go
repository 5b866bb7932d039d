// Package commit carries decisions out.
//
// It takes decisions; it gives bindings, the steps of plugins, conditions and events to a Writer, and how each binding ended to the loop. It
// owns what has not been written yet: the Outbox, a state machine without a clock that says what to send next and when again, and the
// goroutines that send it, a fixed number of them. Bindings go before everything else, those of pods of higher priority first; conditions and
// events take turns, within a budget, so that a flood of one kind holds up no other. Of several conditions of one pod only the latest is
// written, and the repetitions of an event are counted in one. Every binding is answered, whatever happens, and one whose
// outcome is unknown is answered only when it is known. It never decides where a pod goes, and never makes the loop wait except by
// saying, through Room, that too many bindings wait.
package commit
