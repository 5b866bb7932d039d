package queue

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/price"
)

// What an author writes can make a turn cost a thousand times what others cost. A
// namespace with such turns gets an account. Its pods yield to the others of the same
// priority until these have had as much work as its expensive turns cost; where no other
// pod of that priority is ready, they go on at once. No pod goes before one of higher
// priority for that.
//
// An account is that of a namespace and not of an owner: whoever may create pods there
// may name any owner, and rights and quotas are given by namespace. Pods of namespaces
// without an account keep their order, and nothing is counted for them one by one.
//
// Debts count work and no time, so the same inputs give the same order.
const (
	// expensiveFrom is what a turn costs that opens an account, and expensivePerNode the
	// least of it for each node: with very many nodes ordinary turns cost more.
	expensiveFrom, expensivePerNode = 2 * price.Millisecond, 400
	// saidFrom is what a turn costs that the pod's event tells of.
	saidFrom = 20 * price.Millisecond
	// owedMax bounds what accounts owe at one priority. It is for when they had work
	// alone: others then have no more than this in advance.
	owedMax = 1000 * price.Millisecond
	// fadesAfter is how much work ends an account none of which was an expensive turn of
	// its pods.
	fadesAfter = 1000 * price.Millisecond
	// accountsMax bounds the accounts. When there are more such namespaces, pods of the
	// others wait with those that have none.
	accountsMax = 256
	// debtsMax bounds the priorities at which something is owed. Of more, the smallest is
	// forgiven.
	debtsMax = 64
)

// account is that of a namespace some of whose turns were expensive lately.
type account struct {
	namespace string
	// Invariant: active has the entries that are active and have this account, each once
	// and at its index, and no other.
	active heap[*entry]
	// served is how much work its expensive turns cost, from that on which the others had
	// when it last had none ready: of several accounts the one with the least goes first.
	served int64
	// latest is what all work was when its last expensive turn ended.
	latest int64
	// said means that an event has told of it.
	said bool
}

// accounts are those of a queue. Without any, nothing here costs more than a look at the
// length of a list.
type accounts struct {
	// none means that there are no accounts: a QueueSort plugin from outside orders the
	// pods, whose order is not to be changed.
	none bool
	// Invariant: byNamespace has exactly the accounts of open, by their namespaces; at
	// most accountsMax.
	byNamespace map[string]*account
	open        []*account // in the order in which they were opened
	// Invariant: owed has each priority once, with more than 0 and at most owedMax units;
	// nothing is owed without accounts.
	owed []debt
	// work is the units of all turns, served what the account that had its turn last had
	// been served before.
	work, served int64
	// sorting means that pods of accounts are still to be taken out of the heap of all
	// others.
	sorting bool
}

// debt is what pods with accounts owe the others of a priority.
type debt struct {
	priority int32
	units    int64
}

// accountFor returns the account of an entry's namespace, nil for most.
func (q *Queue) accountFor(e *entry) *account {
	if len(q.accounts.open) == 0 {
		return nil
	}
	return q.accounts.byNamespace[e.pod.Namespace]
}

// join adds an entry that is active.
func (a *account) join(e *entry, served int64) {
	if a.active.size() == 0 {
		a.served = max(a.served, served)
	}
	e.account = a
	a.active.add(e)
}

// firstActive returns the active entry whose turn it is; nil if there is none, or while pods of
// accounts are taken apart from the others.
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

// first returns the entry of the accounts whose turn it is: the one of highest priority,
// and of those the one whose account was served least.
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

// debtAt returns what is owed at a priority, nil for nothing.
func (x *accounts) debtAt(priority int32) *debt {
	if at := slices.IndexFunc(x.owed, func(d debt) bool { return d.priority == priority }); at >= 0 {
		return &x.owed[at]
	}
	return nil
}

// Charge takes in what the turn of a work cost that was popped last, before it is
// settled. It returns what the first pod's event is to say of that, nil if nothing.
func (q *Queue) Charge(work plan.Work, bill *price.Bill, unfinished bool) *plan.Deferral {
	x, units := &q.accounts, bill.Total()
	x.work += units
	threshold := max(expensiveFrom, expensivePerNode*int64(q.config.State.Nodes()))
	isExpensive := unfinished || units >= threshold
	all := units // of the turn
	if e := q.entryOf(work); e != nil && (isExpensive || e.cost > 0) {
		all = e.charge(units, unfinished)
	}
	if len(x.open) == 0 && !isExpensive || x.none {
		return nil
	}
	pod := work.Pods[0].Pod
	priority := pod.Priority
	if work.Group != nil {
		priority = work.Group.Priority
	}
	a := x.byNamespace[pod.Namespace]
	if a == nil && isExpensive {
		a = x.openFor(pod.Namespace, q.active.less)
	}
	if a == nil {
		x.pay(priority, units)
	} else if isExpensive {
		a.latest = x.work
		x.served = a.served
		a.served += units
		x.owe(priority, units)
	}
	x.fade()
	if a == nil || a.said || all < saidFrom || unfinished {
		return nil
	}
	a.said = true
	return &plan.Deferral{Units: all, Kind: bill.Most()}
}

// entryOf returns the entry that was popped with a work: that of its pod, or the head of
// its group.
func (q *Queue) entryOf(work plan.Work) *entry {
	e := q.entries[work.Pods[0].Pod.Key()]
	if e != nil && e.group != nil {
		return &e.group.head
	}
	return e
}

// charge notes what an entry's turn cost in a round. It returns what it cost in all the
// rounds that it has taken so far.
func (e *entry) charge(units int64, unfinished bool) int64 {
	if !e.costs {
		e.cost = 0
	}
	e.cost += units
	e.costs = unfinished
	return e.cost
}

// openFor opens an account; nil if there are too many, all of which have pods that are
// ready.
func (x *accounts) openFor(namespace string, less func(a, b *entry) bool) *account {
	if len(x.open) == accountsMax {
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

// fade closes accounts none of whose turns was expensive for long, and none of whose pods
// is ready.
func (x *accounts) fade() {
	for i := len(x.open) - 1; i >= 0; i-- {
		if a := x.open[i]; a.active.size() == 0 && x.work-a.latest > fadesAfter {
			x.close(i)
		}
	}
}

// owe adds what a turn cost to what is owed at its priority.
func (x *accounts) owe(priority int32, units int64) {
	if d := x.debtAt(priority); d != nil {
		d.units = min(d.units+units, owedMax)
		return
	}
	if len(x.owed) == debtsMax {
		least := 0
		for i, d := range x.owed {
			if d.units < x.owed[least].units {
				least = i
			}
		}
		x.owed = slices.Delete(x.owed, least, least+1)
	}
	x.owed = append(x.owed, debt{priority, min(units, owedMax)})
}

// pay takes the work of a pod without an account off what is owed at its priority.
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

// Accounts returns how many namespaces have accounts, and how many of these have pods
// that are ready and yield to others.
func (q *Queue) Accounts() (open, yielding int) {
	for _, a := range q.accounts.open {
		if e := a.active.first(); e != nil && q.accounts.debtAt(e.pod.Priority) != nil {
			yielding++
		}
	}
	return len(q.accounts.open), yielding
}

// yields reports whether an entry that is active waits for others of its priority to have
// had as much work as its namespace.
func (q *Queue) yields(e *entry) bool {
	return e.place == active && q.accountFor(e) != nil && q.accounts.debtAt(e.pod.Priority) != nil
}
