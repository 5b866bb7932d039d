// Package commit carries decisions out.
//
// It takes decisions and the reports about them; it gives bindings, conditions and events to a Writer, and how each binding ended
// to the loop. It owns what has not been written yet: bindings go before conditions, and those before events; of several
// conditions of one pod only the latest is written; so many writes are in flight at a time and no more. Every binding is answered,
// whatever happens. It never decides where a pod goes, and never holds the loop up except by saying, through Room, that too many
// bindings wait.
package commit
