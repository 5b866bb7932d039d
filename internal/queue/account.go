package queue

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// A single pod can make its turn cost a thousand times as much as an ordinary turn. A
// namespace with expensive turns gets an account. After each expensive turn its pods
// yield to the other pods of the same priority, until these have had as much work. If no
// other pod of that priority is ready, pods with an account continue at once. Accounts
// never override priorities.
//
// Accounts belong to namespaces, not to owners: an author can name any owner in a pod,
// while access rights and quotas are set by namespace. Pods without an account keep their
// order, and their work is not counted one by one.
//
// Debts count work and no time, so the same inputs give the same order.
const (
	// A turn opens an account if it costs at least expensiveFrom units and
	// expensivePerNode units for each node. In very large clusters ordinary turns cost
	// more. An unfinished turn always opens an account.
	expensiveFrom, expensivePerNode = 2 * price.Millisecond, 400
	// saidFrom is the cost from which a turn is reported in an event of the pod.
	saidFrom = 20 * price.Millisecond
	// maxOwed bounds the debt at one priority. Debt also grows while no other pods are
	// ready; pods that become ready later go first for at most this much work.
	maxOwed = 1000 * price.Millisecond
	// fadesAfter closes an account after this much work without an expensive turn of
	// its pods.
	fadesAfter = 1000 * price.Millisecond
	// maxAccounts bounds the accounts. If all accounts have ready pods, a further
	// namespace gets no account, and its pods wait with all others.
	maxAccounts = 256
	// maxDebts bounds the priorities with a debt. At the bound the smallest debt is
	// dropped.
	maxDebts = 64
)

// account holds the ready pods of a namespace with expensive turns lately.
type account struct {
	namespace string
	// Invariant: active holds exactly the active entries with this account, each once
	// and at its index.
	active heap[*entry]
	// served is the virtual time of the account: the cost of its expensive turns. An
	// account without ready pods gains no credit. When a pod becomes ready again,
	// served is raised to the virtual time of the queue. Of several accounts the least
	// served goes first.
	served int64
	// latest is the total work at the end of the last expensive turn of this account.
	latest int64
	// said is set after an event has reported an expensive turn of this account.
	said bool
}

// accounts are the accounts of a queue. Without accounts each call costs one length
// check.
type accounts struct {
	// none disables accounts, because an out-of-tree QueueSort plugin orders the pods
	// and its order must not change.
	none bool
	// Invariant: byNamespace has exactly the accounts in open, by namespace; at most
	// maxAccounts.
	byNamespace map[string]*account
	open        []*account // in the order of their opening
	// Invariant: owed has each priority at most once, with 1 to maxOwed units. Without
	// accounts owed is empty.
	owed []debt
	// work is the units of all turns. served is the virtual time of the queue: the
	// served of the account with the last expensive turn, before that turn.
	work, served int64
	// turn is the units of the last turn, or of its last round.
	turn int64
	// sorting means that pods with accounts remain in the heap of all other pods.
	sorting bool
}

// debt is the work that the other pods of a priority get before pods with accounts
// continue.
type debt struct {
	priority int32
	units    int64
}

// accountFor returns the account of an entry's namespace, nil without one.
func (q *Queue) accountFor(e *entry) *account {
	if len(q.accounts.open) == 0 {
		return nil
	}
	return q.accounts.byNamespace[e.pod.Namespace]
}

// join adds an active entry. served is the virtual time of the queue.
func (a *account) join(e *entry, served int64) {
	if a.active.size() == 0 {
		a.served = max(a.served, served)
	}
	e.account = a
	a.active.add(e)
}

// firstActive returns the active entry whose turn is next. It returns nil if no entry
// is active, or while pods of accounts still remain in the common heap.
func (q *Queue) firstActive() *entry {
	x := &q.accounts
	if len(x.open) == 0 {
		return q.active.first()
	}
	light := q.active.first()
	moved := 0
	for x.sorting = false; light != nil; light = q.active.first() {
		a := q.accountFor(light)
		if a == nil {
			break
		}
		if x.sorting = moved == q.config.Slice; x.sorting {
			return nil
		}
		moved++
		q.active.remove(light)
		a.join(light, x.served)
	}
	heavy := x.first()
	switch {
	case heavy == nil:
		return light
	case light == nil:
		return heavy
	case light.pod.Priority != heavy.pod.Priority:
		if light.pod.Priority > heavy.pod.Priority {
			return light
		}
		return heavy
	case x.debtAt(light.pod.Priority) != nil || q.active.less(light, heavy):
		return light
	}
	return heavy
}

// first returns the next entry of the accounts: the highest priority first, then the
// least served account.
func (x *accounts) first() (first *entry) {
	for _, a := range x.open {
		e := a.active.first()
		if e == nil {
			continue
		}
		if first == nil || e.pod.Priority > first.pod.Priority || e.pod.Priority == first.pod.Priority && a.served < first.account.served {
			first = e
		}
	}
	return first
}

// debtAt returns the debt at a priority, nil if none.
func (x *accounts) debtAt(priority int32) *debt {
	if at := slices.IndexFunc(x.owed, func(d debt) bool { return d.priority == priority }); at >= 0 {
		return &x.owed[at]
	}
	return nil
}

// Charge charges the turn of the attempt that was popped last to the account of its
// namespace. It must be called before the attempt is settled. It returns the Deferral for
// the event of the first pod, nil if no event is due.
func (q *Queue) Charge(a *plan.Attempt, bill *price.Bill) *plan.Deferral {
	x, units, unfinished := &q.accounts, bill.Total(), a.Outcome == plan.Unfinished
	x.work += units
	x.turn = units
	threshold := max(expensiveFrom, expensivePerNode*int64(q.config.State.Nodes()))
	isExpensive := unfinished || units >= threshold
	all := units // of the turn
	if e := q.entryOf(a); e != nil && (isExpensive || e.cost > 0) {
		all = e.charge(units, unfinished)
	}
	if len(x.open) == 0 && !isExpensive || x.none {
		return nil
	}
	pod := a.First()
	priority := pod.Priority
	if a.Group != nil {
		priority = a.Group.Priority
	}
	account := x.byNamespace[pod.Namespace]
	if account == nil && isExpensive {
		account = x.openFor(pod.Namespace, q.active.less)
	}
	if account == nil {
		x.pay(priority, units)
	} else if isExpensive {
		account.latest = x.work
		x.served = account.served
		account.served += units
		x.owe(priority, units)
	}
	x.fade()
	if account == nil || account.said || all < saidFrom || unfinished {
		return nil
	}
	account.said = true
	return &plan.Deferral{Units: all, Kind: bill.Most()}
}

// entryOf returns the entry of a popped attempt: the entry of its pod, or the head of its
// group.
func (q *Queue) entryOf(a *plan.Attempt) *entry {
	e := q.entries[a.First().Key()]
	if e != nil && e.group != nil {
		return &e.group.head
	}
	return e
}

// charge adds the cost of one round to the entry's turn. It returns the cost of the
// turn in all its rounds so far.
func (e *entry) charge(units int64, unfinished bool) int64 {
	if !e.costs {
		e.cost = 0
	}
	e.cost += units
	e.costs = unfinished
	return e.cost
}

// openFor opens an account. At the bound it closes the account with the oldest
// expensive turn among those without ready pods; if all have ready pods, it returns
// nil.
func (x *accounts) openFor(namespace string, less func(a, b *entry) bool) *account {
	if len(x.open) == maxAccounts {
		oldest := -1
		for i, a := range x.open {
			if a.active.size() == 0 && (oldest < 0 || a.latest < x.open[oldest].latest) {
				oldest = i
			}
		}
		if oldest < 0 {
			return nil
		}
		x.close(oldest)
	}
	a := &account{namespace: namespace, active: newHeap(less), served: x.served}
	x.byNamespace[namespace] = a
	x.open = append(x.open, a)
	return a
}

func (x *accounts) close(at int) {
	delete(x.byNamespace, x.open[at].namespace)
	if x.open = slices.Delete(x.open, at, at+1); len(x.open) == 0 {
		x.owed, x.served, x.sorting = nil, 0, false
	}
}

// fade closes accounts that have no ready pods and had no expensive turn for fadesAfter
// units.
func (x *accounts) fade() {
	for i := len(x.open) - 1; i >= 0; i-- {
		if a := x.open[i]; a.active.size() == 0 && x.work-a.latest > fadesAfter {
			x.close(i)
		}
	}
}

// owe adds the cost of a turn to the debt at its priority.
func (x *accounts) owe(priority int32, units int64) {
	if d := x.debtAt(priority); d != nil {
		d.units = min(d.units+units, maxOwed)
		return
	}
	if len(x.owed) == maxDebts {
		least := 0
		for i, d := range x.owed {
			if d.units < x.owed[least].units {
				least = i
			}
		}
		x.owed = slices.Delete(x.owed, least, least+1)
	}
	x.owed = append(x.owed, debt{priority, min(units, maxOwed)})
}

// pay subtracts the cost of a turn of a pod without an account from the debt at its
// priority.
func (x *accounts) pay(priority int32, units int64) {
	d := x.debtAt(priority)
	if d == nil {
		return
	}
	if d.units -= units; d.units <= 0 {
		x.owed = slices.DeleteFunc(x.owed, func(d debt) bool { return d.units <= 0 })
	}
}

// ready returns the number of active entries.
func (q *Queue) ready() int {
	ready := q.active.size()
	for _, a := range q.accounts.open {
		ready += a.active.size()
	}
	return ready
}

// Accounts returns the number of accounts, and of those whose next pod yields to
// others.
func (q *Queue) Accounts() (open, yielding int) {
	for _, a := range q.accounts.open {
		if e := a.active.first(); e != nil && q.accounts.debtAt(e.pod.Priority) != nil {
			yielding++
		}
	}
	return len(q.accounts.open), yielding
}

// yields reports whether an active entry waits until others of its priority have had as
// much work as its namespace.
func (q *Queue) yields(e *entry) bool {
	return e.place == active && q.accountFor(e) != nil && q.accounts.debtAt(e.pod.Priority) != nil
}
