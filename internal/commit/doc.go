// Package commit carries decisions out.
//
// It takes decisions and the reports about them; it gives bindings, conditions and events to a Writer, and how each binding ended
// to the loop. It owns what has not been written yet: the Docket, a state machine without a clock that says what to send next and when again,
// and the goroutines that send it, so many at a time and no more. Bindings go before conditions, and those before events; of several
// conditions of one pod only the latest is written. Every binding is answered, whatever happens, and one whose outcome is unknown is
// answered only when it is known. It never decides where a pod goes, and never holds the loop up except by saying, through Room, that
// too many bindings wait.
package commit
