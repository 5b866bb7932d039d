// Package history keeps the latest decisions of the running scheduler and the state of
// pending pods.
//
// It takes the rounds of a loop and details of a sample of decisions. It returns an
// Answer about one pod: the reasons for its node, its attempts and the event before each,
// the events that it waits for, and the pods before it. It owns a memory that is bounded
// in bytes, oldest dropped first. It never changes a decision and never calls an API
// server. `kubectl berth explain` reads it through app/explain.go and server/explain.go.
//
// Recording must cost next to nothing. A pod placed at its first attempt, as most are, is
// a few values in a ring, found by a walk on request. Only other pods have a record by
// key. The event and plugin that woke a pod travel with its turn (plan.Woken).
//
// Details, such as scores, are computed again between a decision and its assumption,
// where the loop calls its witnesses (engine/detail.go): the same columns and state, so
// the same node and total (TestDetailIsThatOfTheDecision). Recording every decision was
// avoided, because a detail costs a scan or two. A budget samples them (budget.go): 2 %
// of the time of decisions, 1 % for failed attempts, and 0.1 % of idle time for each. The
// core has no part in it. Out-of-tree plugins and extenders are not called twice. For a
// group member the witness is called in the view of its domain (group.Witness). The
// decision names the details (plan.Decision.Details), so details of reverted domains and
// passes are never shown.
//
// A question is answered between two rounds (Loop.Ask), from the ring, the record and
// queue.Describe. It reads all placements in the ring, at most 20,000 queued pods, and
// each member of the pod's group once. That takes about 1 ms with the default memory and
// 5 ms with the largest, 256 MiB or 230,000 placements (BenchmarkOf). A pause of 99 times
// as long follows. If an out-of-tree plugin orders the queue, the pods ahead are not
// computed.
//
// Credentials are sent to a scheduler only with --scheduler: `leader`, through a
// port-forward, or an address, whose certificate is always checked. The filter that
// guards all endpoints presents the question to the authorizer as a get of the pod.
package history
