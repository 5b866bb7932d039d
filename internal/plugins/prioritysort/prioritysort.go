// Package prioritysort orders waiting pods: the most important first, and among equals whoever waits longest.
//
// It takes what the queue knows about two entries; it gives which of them goes first. It owns nothing. It never breaks a
// tie: entries that are equal in both have no order here.
package prioritysort

import "time"

// Name is the plugin's name in the configuration.
const Name = "PrioritySort"

// Rank is what decides an entry's place. The queue owns its entries and keeps a Rank in each.
type Rank struct {
	// Priority is the pod's or the pod group's; 0 where none is given.
	Priority int32
	// Since is when the entry came into the queue, or came back after its last failed attempt.
	Since time.Time
}

// Less reports whether a goes before b.
func Less(a, b Rank) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.Since.Before(b.Since)
}
