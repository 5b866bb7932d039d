// Package freeindex finds the best nodes for a pod whose requests no pod had before.
//
// It takes nodes by slot, each with its amounts and its group, and returns the nodes with
// the highest total into which a demand fits, or how many nodes it fits into. It owns the
// trees. It never evaluates a filter besides amounts, reads the state, or breaks a tie.
//
// # Algorithm
//
// A ranking orders nodes by their score, so it needs a pod like earlier pods. Scores of
// amounts differ for each request. But they can be bounded for many nodes at once: no
// node scores more than a node with the largest free amounts of all. So:
//
//  1. Nodes that differ only in amounts form a group, as in package rank. Zones, taints
//     and images differ between groups and have one score in each.
//  2. The nodes of a group stand in a tree over their free cpu and free memory. Each part
//     of the tree has a box, the least and most of the values of its nodes.
//  3. A search bounds the total of each tree from its box, and descends into the best
//     quarter first. It skips each part with a bound below the best total so far.
//
// This is a tree, with its plane and one box:
//
//	free memory
//	1 ┌───────┬───┬───┐     inner node: a square, cut in four at its middle
//	  │       │ ··│ · │     leaf:       up to 16 nodes, or any number with equal amounts
//	  │       ├───┼─┬─┤     box:        the least and most free cpu, memory, storage and
//	  │       │   │:│·│                 pods (for the demand); the least and most free
//	  ├───────┼───┴─┴─┤                 shares, their sum, and the skew between used cpu
//	  │   ·   │       │                 and memory (for the scores)
//	0 └───────┴───────┘
//	  0    free cpu   1         as shares of the allocatable amounts
//
// Example: 5,000 nodes, 300 of them with at least 3.7 CPUs and 9 GiB free. A pod
// requests these amounts. The best quarter has a bound of 171, and a leaf in it a node
// with a total of 169. Four other parts have bounds of 169 or more, all others less.
// The search looks at a few dozen boxes and nodes, and returns the three nodes with
// 169. The engine draws one of them as after a scan.
//
// The plugins bound their own scores ([plugin.AmountScores]), and also score the nodes in
// leaves. A bound that is too low would lose a node, so tests compare random boxes with
// their nodes. A bound that is too high only costs time.
//
// The number of feasible nodes is a sum over the trees. A part whose least free amounts
// meet the demand counts as a whole, and a part whose most do not meet it counts as zero.
//
// # Changes
//
// A node whose amounts change is removed and put again. Squares are cut at fixed places,
// so nothing is balanced. Removing a node computes the boxes above it again.
//
// Empty nodes are equal, and so stay one leaf whatever their number, evaluated once. When
// a node with other amounts comes to their square, the leaf sinks as a whole.
//
// Nodes without cpu or memory, and nodes of more than 2⁵² units, are a list beside the
// tree, evaluated one by one. Plugins score these differently, and bounds would not hold.
//
// # Rejected
//
// Figures are from a prototype with 5,000 to 50,000 nodes.
//
//   - One tree for all groups, with sets of groups in boxes: half as many boxes. But
//     groups differ between pods, and counts of feasible nodes would need a table in each
//     box.
//   - Leaves of 8 or 32 nodes: 753 boxes and 153 nodes, or 593 and 500, instead of 662
//     and 228. No difference in time.
//   - A list ordered by the sum of the free shares: reads 2,600 to 34,800 of 50,000
//     nodes, because nodes that do not fit come first.
//   - The nodes that no other node dominates: floors make ties, so the chosen node is
//     dominated in up to 67 % of decisions.
package freeindex
