// Package preempt finds the node and the victims for a pod without a feasible node.
//
// It takes the turn of a pod that no node is feasible for (turn.go), and returns the node
// and its victims, or the reason why preemption helps nowhere. It owns nothing: the
// engine holds its memory. It evicts and nominates no pod and never changes the state.
//
// The rules are kube-scheduler's DefaultPreemption: remove all pods of lower priority,
// put them back, those protected by a budget first and the more important first, and
// evict those with which the pod no longer fits. The best node has the fewest budget
// violations, then the lowest maximum priority among its victims, and so on.
// kube-scheduler tries a tenth of the nodes, at least a hundred, from a random one on.
// Berth takes the best of all nodes, and Facts.Salt decides between equals.
//
// # Why it is fast
//
// With 5,000 nodes, a preemptor would cost 5,000 dry runs. Most are avoided:
//
//   - Bands: the state sums up the pods of each priority on a node (Node.Bands). Without
//     a look at a pod, the sums show whether the request fits when all lower pods are
//     gone, up to which priority pods must go, and how many at best. That is a lower
//     bound on the node's cost.
//   - Branch and bound: nodes are tried in the order of their bounds, until no bound is
//     better than the best candidate. The result equals trying all nodes
//     (TestAgreesWithThePlainSearch keeps the plain search).
//   - Order: after some searches for the same remembered rejection and priority, nodes
//     are kept in a tournament with the best bound at its root (order.go). It follows the
//     journal, so a search costs the changes times the logarithm of the nodes
//     (TestPreemptionLooksAtWhatChanged). All nodes are visited after more than 64 +
//     nodes/32 changes, or if the rejection is never remembered, as when filters count
//     nominated pods.
//   - Numbers: if filters read only what pods occupy (Facts.OnlyUsage), removing and
//     returning pods is arithmetic on sums. Otherwise each step is a dry run on a Draft.
//   - Memory: bounds are kept by priority and request, up to a size in bytes, and follow
//     the journal. Its aspects Nominations and Starts list nodes where a pod was
//     nominated or got a start time. The rank found for a node replaces its bound until
//     the node or a budget changes. Results of dry runs are kept by shape (findings.go).
//     The memory never changes a result.
//
// Example: 5,000 nodes with 30 pods each, and preemptors of one kind. The first search
// rates all nodes in 1.0 ms and tries one. After eight such searches the nodes are kept
// in order. The victims of a preemptor leave, which changes one node. The next search
// moves that node in the tournament, tries the new root and takes 27 µs. At 50,000 nodes
// it takes 27 µs as well.
//
// # Budgets and extenders
//
// Budgets are found by a label that their selectors require. The state lists recent
// changes (state/budgets.go). A changed budget drops the findings of nodes with its pods,
// unless a node has so few of them that the budget was not violated before and is not
// now.
//
// An extender with a say about victims may choose any candidate. If it is interested in
// the pod, all nodes are tried and none of its answers is remembered (extenders.go).
//
// The decision holds the evictions and the nomination. The state applies both at once, so
// the next decision leaves room for the pod and picks no further victim for it.
// Remembered rejections follow nominations through the journal, so the decisions of a
// burst of preemptors cost the changes between them.
package preempt
