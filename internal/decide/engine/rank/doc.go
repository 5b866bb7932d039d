// Package rank keeps the feasible nodes in order of their score for one kind of pod.
//
// It takes nodes by slot with their coordinates and sums, and returns the best node, or
// one of several equally good nodes. It owns its tables. It never evaluates a filter or a
// score, and does not read the state.
//
// Pods of one kind follow each other, such as the replicas of a Deployment. Between two
// of them a few nodes change. So keeping the order costs the changes, and a scan costs
// all nodes: 2.6 µs instead of 21 at 5,000 nodes, 3.1 µs instead of 794 at 200,000.
//
// # Groups and sums
//
// A plain sorted list does not work. Some scores depend on other nodes: they are
// normalised over all feasible nodes, or count pods by zone. One placed pod then changes
// the scores of a whole zone. Therefore nodes form groups:
//
//	group (coordinates)                sum: the score that depends on the node alone
//	zone-a · 2 replicas · image        155 → {n3 …}   160 → {n1 n8 …}   171 → {n7 n9}  ◀
//	zone-b · 0 replicas · image        160 → {n2 …}   168 → {n4}                       ◀
//	zone-b · 0 replicas · no image     149 → {n5 n6}                                   ◀
//
// In this picture:
//
//   - Coordinates are the raw scores that are normalised, the class of a ClassScores
//     column, and for each counted topology key the domain of the node. Where no two
//     nodes share a domain, as for host names, the count takes the place of the domain.
//   - One node per group therefore decides whether all its nodes pass the rules about
//     counts, and which normalised and joint scores they get.
//   - All other scores add up to the sum of a node. Only the highest sum of each group
//     (◀) can win.
//
// A decision moves the nodes that the journal lists, looks at one node per group and
// picks among the nodes with the highest total by counts. It costs the changes, the
// groups, and the logarithm of the number of nodes. Zone spreading and zone affinity
// shift whole groups and move no node.
//
// Example: a pod is placed on n7. n7 moves from 171 to 165, and "2 replicas" of zone-a
// becomes 3. That is one move and one number, although the scores of a third of all nodes
// changed.
//
// # Use by package engine
//
// A ranking is built once the scans that it would have saved have cost as much as
// building it: 8 scans, halved for each of the last three rankings that paid off, because
// the next application tends to be as large as those before. A scan that is only expected
// counts half, so 16 equal members that follow in a pod group are enough. A ranking that
// saves less than its price before it is dropped doubles the price of the next for its
// key.
//
// It is dropped if updates cost more than it saves: a change of more than one node in 32
// between two uses costs more than a scan. It is also dropped if it has more than one
// group for 16 nodes, as with soft spreading over hosts that differ much.
//
// The key of a ranking is the needs of the filters, the columns of the scores and the
// counted sets. Pod labels belong to it only if anti-affinity by host keeps pods with
// these labels away. So replicas of a StatefulSet share a ranking, and so do applications
// that differ in labels alone. At most 64 rankings are kept within
// engine.DefaultRankingBytes, the least recently used is dropped first. A need that comes
// once leaves a key without a ranking; at most 256 keys are kept.
//
// Not ranked, hence scanned: extenders and out-of-tree plugins, pods with a node name or
// a nomination, drafts, rules that read ports or volumes of nominated pods, and preferred
// affinity by host.
//
// # Ties and tournaments
//
// Among equal nodes [Table.Pick] chooses, and [Pick] does the same without a table. Equal
// nodes are the leaves of a binary tree, ordered by the bits of a hash of their names.
// The way down is drawn from a hash of seed and pod, each side by its share of the
// leaves. So equal nodes are equally likely, a run can be repeated, the result does not
// depend on slots, and one of 200,000 nodes is found by counts.
//
// A [Tournament] keeps the best of slots whose order is not a number and which have
// nothing in common, such as the nodes on which preemption may help.
package rank
