// Package attribution finds the differences between two snapshots that changed a pod's
// answer.
//
// It takes a cluster as it is now (a state, its engine and ingest), the objects of both
// snapshots, and a pod or pod group. It returns a Result: the answer then and now, and
// causes. A cause is a set of differences that suffices to change the answer, and from
// which none can be left out unless the search had to end. It owns the state while it
// searches, and leaves it anywhere between both snapshots. Decisions and replaced objects
// are bounded. It never reads a clock or a file, and evicts or writes nothing.
//
// Objects are compared in the fields that scheduling reads. The answer is never guessed
// from texts: differences are undone (or made, if the older answer is the worse) in the
// state, and the engine decides again. One state moves from one set of differences to the
// next by what differs between these alone.
//
// Sets are tried by kind of object, and by candidate node, the nodes with the fewest
// differences first. From a sufficient set, bisection finds the shortest sufficient
// beginning. Its last difference is needed, and the search continues before it. Then
// superfluous differences are removed; of up to six, every part is tried. Example:
// between two snapshots of 15,000 nodes with 30,152 differences, eleven decisions find
// the cause.
//
// Of a pod group, the answer is the decision about all members, reverted each time
// (members.go). TestCauses holds answers, causes and each part of a cause against the
// oracle, TestCausesOfGroups against explanations of the group in snapshots made for it.
//
// Read in this order: attribution.go (inputs), differences.go, world.go (how differences
// are made), search.go (which sets are tried), reduce.go (which parts are needed).
package attribution
