// Package explain shows why each node is feasible or not for each pending pod of a
// snapshot.
//
// It takes a checked configuration and API objects. It returns an Explanation of a pod
// (each plugin's rejections and scores for every node, and the result of preemption, with
// kube-scheduler's texts, as JSON) and a Summary for people; for a pod group, a Group. It
// owns a state with the placed pods, and an engine. Each pending pod is judged against
// that state alone, and the members of a group one after another. Assumptions are
// reverted, so no explanation influences another. It never calls an API server, reads a
// file or reads a clock.
//
// A group is decided about on the state and its placements are reverted (group.go).
// Changes that would let it start, such as a lower minCount, fewer members or more empty
// nodes, are made, decided about and reverted, within a bounded number of decisions.
// Suggestions for single pods come from package advice, causes of a changed answer from
// package attribution.
package explain
