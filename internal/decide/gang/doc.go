// Package gang decides about pod groups: enough members find nodes, or none is placed.
//
// It takes a state, an engine and the plan.Attempt of a pod group, and decides about each
// of its members. It owns its assumptions while it decides: afterwards the
// members of a placed group are assumed, and otherwise the state is as before. It never
// evaluates a node: the engine does. Without the gate GenericWorkload it is never used.
//
// # One pass
//
// The engine decides about one member after another, each assumed on its node before the
// next. If minCount members have a node, the assumptions stand; otherwise they are
// reverted. A Draft was rejected here: on a Draft, filters that count pods count anew for
// each member, while tallies and columns follow an assumption by its change alone. Each
// member has its own decision, so reports, bindings and failures work as for any other
// pod. The condition of the PodGroup is a write of the first member's decision; the
// latest version counts (plan.Write.Latest). A tree's attempt holds those of its
// PodGroups (Attempt.Below). From sixteen equal members on, nodes are ranked at once
// (engine/run.go).
//
// Example: 512 equal members at 5,000 nodes take 0.96 ms, 1.9 µs a member.
//
// # Domains and trees
//
// With TopologyAwareWorkloadScheduling a group is tried in each domain of its topology
// key (placements.go). TopologyPlacementGenerator lists the domains, the PlacementScore
// plugins PodGroupPodsCount and NodeResourcesFit choose the best with room, and a hash of
// seed, group and name breaks ties. A state.Restriction limits the scan to the domain's
// nodes, which are the N of "0/N nodes". PreFilter, columns and tallies stay those of the
// whole cluster, as in kube-scheduler. K domains cost one scan of all nodes and K times
// the members (TestWorkOfPlacements). Member decisions of the best domain are kept up to
// 16,384 of them; beyond that the best domain is tried again.
//
// With CompositePodGroup, groups form trees (tree.go). The attempt of a tree is that of
// one group with all members and the root's priority. Each PodGroup has a part of it, in
// domains within its parent's. A failed part is reverted before the next. The members
// cost as much as in a single group, once per lowest domain. Whether a tree has enough
// members is checked when that may have changed, not for each member that arrives.
//
// # Further passes
//
// Members that are placed one by one may miss a feasible placement: small members can
// take the space that a large one needs. Before a group is rejected, members are tried in
// other orders and with other nodes among equals (retry.go), within
// --berth-group-retries. The first pass is in kube-scheduler's order, so its acceptances
// stay, and rejections keep its text. No pass follows if no order can help.
// TestGreedyAgainstExhaustive compares with an exhaustive search; docs/gangs.md has its
// results.
//
// # Preemption
//
// If too few members fit, all units of lower priority are displaced from the state, units
// being pods, or groups and trees that must be evicted whole (preempt.go). If enough
// members fit then, units return one after the other, most important first. A unit with
// which a member no longer passes its filters is evicted. Tallies and columns follow; on
// a Draft each member would count tens of thousands of differences. When a unit returns,
// members on its nodes are checked by sums. All members are checked only if their filters
// count the unit's pods, or its anti-affinity selects a member. So most of 30,000 units
// cost no more than their return. The evictions belong to the first member's decision.
//
// Before that, sums by node and priority (Node.Bands) predict the result (foresee.go):
// exactly for equal members whose filters read nothing else, else as an upper bound. A
// hopeless attempt then costs a look at each node, and no pod moves (TestForeseen,
// TestWorkOfHopelessGroups). Failed searches and passes have a budget of time
// (searches.go); groups that have not been searched for have their own.
//
// A group is gated while its evictions are sent, then backs off. It is tried again after
// each backoff and when the last victim is gone. It evicts no further pod while a victim
// still leaves a nominated node. If a single pod needs the room of one member,
// DefaultPreemption evicts the whole group.
//
// # Overtaking
//
// kube-scheduler reserves nothing for a waiting group, so small pods can overtake it for
// ever. After --berth-group-patience, Room (room.go) computes nominations as if the pods
// had gone that came later and do not outrank the group. If that suffices, the loop
// (roomhold.go) reserves the room. Filters of pods that do not outrank the group must
// pass beside it, as for nominated pods, so columns, journal and remembered rejections
// follow it already. Real nominations were rejected: they would be written to the API,
// take members to their nodes without scoring, and make members leave room for each
// other. The group itself is decided about as if nothing were reserved. After 5 minutes
// it gives way for as long, then each time holds twice as long, up to 160 minutes. Four
// groups hold room at a time; one search starts per second. All of it is in memory.
//
// # Claims and unfinished attempts
//
// Members share allocations promised in their turn. For a rejected group DynamicResources
// releases claims that are in the way (free.go), as in kube-scheduler not for trees or
// groups with a topology key. An attempt that exceeds its budget stops between two
// domains, with nothing assumed (progress.go). Results stay valid until a change to their
// inputs (Engine.Elsewhere), so the decision equals an attempt made at once. If results
// expire as fast as new ones arrive, the budget doubles.
package gang
