package queued

import (
	"time"

	"github.com/berth-scheduler/berth/internal/answers/history"
)

// Version is the version of Answer. It increases when a field changes its meaning or is
// removed.
const Version = 1

// Question selects pods.
type Question struct {
	// Namespace is empty for all namespaces.
	Namespace string
	// Selector selects pods by their labels; empty selects all.
	Selector string
	// Pods also lists each pod of a group.
	Pods bool
}

// Answer has the selected pods.
type Answer struct {
	Version int `json:"version"`
	// At is when the queue was read.
	At time.Time `json:"at"`
	// Pods is the number of selected pods.
	Pods int `json:"pods"`
	// Groups has the selected pods: active pods first, in the order of their turns, then
	// pods with a backoff, then all others, the oldest first.
	Groups []Group `json:"groups"`
	// WaitsFor has the events that the rejecting plugins registered, by plugin. Any of
	// them may wake a pod that such a plugin rejected.
	WaitsFor []history.WaitsFor `json:"waitsFor,omitempty"`
	// GroupsLeftOut is the number of groups beyond the limit of an answer, PodsLeftOut
	// the number of pods that are not listed.
	GroupsLeftOut int `json:"groupsLeftOut,omitempty"`
	PodsLeftOut   int `json:"podsLeftOut,omitempty"`
	// OtherSchedulers is the number of selected pods in a snapshot whose scheduler has no
	// profile in the configuration. They are not listed.
	OtherSchedulers int `json:"otherSchedulers,omitempty"`
	// OrderUnknown is the reason why positions are missing.
	OrderUnknown string `json:"orderUnknown,omitempty"`
}

// Group has the pods of one owner that wait in the same place for the same reason.
type Group struct {
	Namespace string `json:"namespace"`
	// Owner is KIND/NAME of the controller; without one, of the pod group or of the pod.
	Owner string `json:"owner"`
	// PodGroup is NAMESPACE/NAME of the pod group that the pods wait with.
	PodGroup string `json:"podGroup,omitempty"`
	// Place is active, backing off, backing off after an error, parked, gated, incomplete
	// or deciding.
	Place string `json:"place"`
	// Rejectors are the plugins that rejected the pods, or the PreEnqueue plugin that
	// gates them. Pending are the Rejectors that wait for something outside the cluster.
	Rejectors []string `json:"rejectors,omitempty"`
	Pending   []string `json:"pending,omitempty"`
	// Reason is the reason of the last attempt, without numbers of nodes. Message is the
	// text of the last attempt of one pod.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	Count   int    `json:"count"`
	// Since is the creation time of the oldest pod.
	Since time.Time `json:"since"`
	// MinAttempts and MaxAttempts bound the turns of the pods.
	MinAttempts int `json:"attemptsMin"`
	MaxAttempts int `json:"attemptsMax"`
	// Next is when the first backoff ends, for pods that back off.
	Next *time.Time `json:"next,omitempty"`
	// Position is the first position of its pods in the whole queue, from 1; 0 unless
	// they are active.
	Position int `json:"position,omitempty"`
	// WaitsForEvent means that an event for one of the Rejectors wakes the pods.
	WaitsForEvent bool `json:"waitsForEvent,omitempty"`
	// Evicted is the number of evicted pods that are not gone yet.
	Evicted int   `json:"evicted,omitempty"`
	Pods    []Pod `json:"pods,omitempty"`
}

// Pod is one waiting pod.
type Pod struct {
	Name     string     `json:"name"`
	Created  time.Time  `json:"created"`
	Since    time.Time  `json:"since"` // of its present wait
	Attempts int        `json:"attempts"`
	Next     *time.Time `json:"next,omitempty"`
	Position int        `json:"position,omitempty"`
	// Nominated is the node that the last attempt nominated.
	Nominated string `json:"nominated,omitempty"`
}

// The limits of an answer.
const (
	maxGroups = 5_000
	maxPods   = 20_000
)

// unordered is Answer.OrderUnknown.
const unordered = "an out-of-tree plugin orders the queue"
