package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/plugins/prioritysort"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// podIn returns a pod in a namespace.
func podIn(namespace, name string, priority int32) *model.Pod {
	return model.NewPod(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)},
		Spec:       v1.PodSpec{Priority: &priority},
	})
}

// podsIn returns n pods in a namespace, numbered from 0.
func podsIn(namespace string, n int, priority int32) (pods []*model.Pod) {
	for i := range n {
		pods = append(pods, podIn(namespace, fmt.Sprint(namespace, i), priority))
	}
	return pods
}

// turn pops a pod, charges its turn and places it. prices are the milliseconds of work
// per turn, by namespace. turn returns the name of the pod and the Deferral for its
// event.
func turn(t *testing.T, q *Queue, now time.Time, prices map[string]float64) (string, *plan.Deferral) {
	t.Helper()
	w, ok := q.Pop(now)
	if !ok {
		return "", nil
	}
	pod := w.First()
	said := q.Charge(w, &price.Bill{price.Nodes: int64(prices[pod.Namespace] * price.Millisecond)})
	SettlePod(q, now, w, plan.Decision{Outcome: plan.Placed})
	if err := q.Audit(); err != nil {
		t.Fatal(err)
	}
	return pod.Name, said
}

// turns runs turns until no pod is ready, and returns the pods in the order of their
// turns.
func turns(t *testing.T, q *Queue, now time.Time, prices map[string]float64) (names []string) {
	t.Helper()
	for {
		name, _ := turn(t, q, now, prices)
		if name == "" && !q.Unfinished() {
			return names
		}
		if name != "" {
			names = append(names, name)
		}
	}
}

// TestExpensivePodsYield queues the expensive pods of one namespace before all others.
// After each expensive turn the others must have as much work.
func TestExpensivePodsYield(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(podsIn("heavy", 4, 0)...))
	q.Wake(at(1), arrived(podsIn("light", 12, 0)...))
	// 7 light turns cost more than 10
	got := turns(t, q, at(2), map[string]float64{"heavy": 10, "light": 2.5 - 1})
	want := []string{"heavy0", "light0", "light1", "light2", "light3", "light4", "light5", "light6", "heavy1", "light7", "light8", "light9", "light10", "light11", "heavy2", "heavy3"}
	if !slices.Equal(got, want) {
		t.Errorf("turns in the order\n%q, want\n%q", got, want)
	}
}

// TestHigherPriorityGoesFirst queues expensive pods of higher and of lower priority
// than the others. Priorities must decide the order.
func TestHigherPriorityGoesFirst(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(append(append(podsIn("heavy", 2, 10), podsIn("light", 2, 0)...), podIn("heavy", "low", -5))...))
	q.Wake(at(1), arrived(podIn("other", "top", 20)))
	prices := map[string]float64{"heavy": 500, "light": 1}
	if got, want := turns(t, q, at(2), prices), []string{"top", "heavy0", "heavy1", "light0", "light1", "low"}; !slices.Equal(got, want) {
		t.Errorf("turns in the order %q, want %q", got, want)
	}
}

// TestDebtIsOfOnePriority has an expensive turn at one priority. Pods of another
// priority must not yield for it.
func TestDebtIsOfOnePriority(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(podIn("heavy", "high", 10), podIn("heavy", "low0", 0), podIn("heavy", "low1", 0)))
	q.Wake(at(1), arrived(podIn("light", "light0", 0), podIn("light", "light1", 0)))
	prices := map[string]float64{"heavy": 500, "light": 1}
	if got, want := turns(t, q, at(2), prices), []string{"high", "low0", "light0", "light1", "low1"}; !slices.Equal(got, want) {
		t.Errorf("turns in the order %q, want %q", got, want)
	}
}

// TestExpensivePodsShare has three namespaces with expensive turns. They must take
// turns, with turns of the others in between.
func TestExpensivePodsShare(t *testing.T) {
	q := newQueue(t)
	prices := map[string]float64{"light": 1}
	for i, name := range []string{"a", "b", "c"} {
		q.Wake(at(float64(i)), arrived(podsIn(name, 3, 0)...))
		prices[name] = 5
	}
	q.Wake(at(5), arrived(podsIn("light", 40, 0)...))
	got, lights := turns(t, q, at(6), prices), 0
	var heavy []string
	for _, name := range got {
		if name[0] == 'l' {
			lights++
			continue
		}
		if heavy = append(heavy, name); len(heavy) > 3 && lights < 5 {
			t.Errorf("%s came after %d pods of other namespaces: %q", name, lights, got)
		}
		lights = 0
	}
	// The cost of a namespace is unknown before its first turn.
	if want := []string{"a0", "b0", "c0", "a1", "b1", "c1", "a2", "b2", "c2"}; !slices.Equal(heavy, want) {
		t.Errorf("expensive turns in the order %q, want %q", heavy, want)
	}
}

// TestOrdinaryPodsKeepTheirOrder compares the order of cheap pods beside expensive pods
// with their order alone. It also compares the order after one expensive turn of a
// namespace whose other pods are cheap.
func TestOrdinaryPodsKeepTheirOrder(t *testing.T) {
	cheap := func(q *Queue) {
		for i := range 30 {
			q.Wake(at(float64(i)), arrived(podIn([]string{"a", "b", "c"}[i%3], fmt.Sprint("p", i), int32(i/10%2))))
		}
	}
	alone, beside, paid := newQueue(t), newQueue(t), newQueue(t)
	cheap(alone)
	want := turns(t, alone, at(50), nil)
	beside.Wake(at(0), arrived(podsIn("heavy", 5, 0)...))
	cheap(beside)
	got := slices.DeleteFunc(turns(t, beside, at(50), map[string]float64{"heavy": 100, "a": 0.02, "b": 0.02}), func(name string) bool { return name[0] == 'h' })
	if !slices.Equal(got, want) {
		t.Errorf("beside expensive pods in the order %q, alone %q", got, want)
	}
	paid.Wake(at(0), arrived(podIn("b", "first", 5)))
	turn(t, paid, at(0), map[string]float64{"b": 3})
	cheap(paid)
	if n, _ := paid.Accounts(); n != 1 {
		t.Fatalf("%d accounts after an expensive turn", n)
	}
	if got := turns(t, paid, at(50), nil); !slices.Equal(got, want) {
		t.Errorf("after one expensive turn at another priority in the order %q, without %q", got, want)
	}
}

// TestAccountFades checks that an account closes after much work without an expensive
// turn of its namespace.
func TestAccountFades(t *testing.T) {
	q := newQueue(t)
	prices := map[string]float64{"heavy": 30, "light": 100}
	q.Wake(at(0), arrived(podIn("heavy", "h", 0)))
	if _, said := turn(t, q, at(0), prices); said == nil || said.Units != 30*price.Millisecond || said.Kind != price.Nodes {
		t.Errorf("the event tells %v", said)
	}
	q.Wake(at(1), arrived(podIn("heavy", "h", 0)))
	if _, said := turn(t, q, at(1), prices); said != nil {
		t.Error("a second event tells the same")
	}
	prices["light"] = 1
	q.Wake(at(2), arrived(podsIn("light", 1100, 0)...))
	for i := range 1100 {
		before, _ := q.Accounts()
		if turn(t, q, at(3), prices); i < 900 && before != 1 {
			t.Fatalf("the account is gone after %d ms of work", i)
		}
	}
	if n, _ := q.Accounts(); n != 0 || len(q.accounts.owed) != 0 {
		t.Errorf("%d accounts are left, and %v is owed", n, q.accounts.owed)
	}
}

// TestAccountsAreBounded has expensive turns in more namespaces than the limit of
// accounts.
func TestAccountsAreBounded(t *testing.T) {
	q := newQueue(t)
	for i := range 5000 {
		q.Wake(at(0), arrived(podIn(fmt.Sprint("tenant-", i), "p", int32(i%100))))
		w, _ := q.Pop(at(0))
		q.Charge(w, &price.Bill{price.Nodes: expensiveFrom})
		SettlePod(q, at(0), w, plan.Decision{Outcome: plan.Terminating})
	}
	if err := q.Audit(); err != nil {
		t.Error(err)
	}
	if n, _ := q.Accounts(); n != maxAccounts || len(q.accounts.owed) > maxDebts {
		t.Errorf("%d accounts, and something is owed at %d priorities", n, len(q.accounts.owed))
	}
}

// TestManyPodsOfOneNamespace opens an account for a namespace with very many ready
// pods. Its pods must move to the account in slices, each once. The next turn must go
// to a pod of another namespace.
func TestManyPodsOfOneNamespace(t *testing.T) {
	const many = 20_000
	q := newQueue(t)
	q.Wake(at(0), arrived(podsIn("heavy", many, 0)...))
	q.Wake(at(1), arrived(podIn("light", "light", 0)))
	compared := 0
	less := q.active.less
	q.active.less = func(a, b *entry) bool { compared++; return less(a, b) }
	w, _ := q.Pop(at(2))
	q.Charge(w, &price.Bill{price.Nodes: 20 * price.Millisecond})
	SettlePod(q, at(2), w, plan.Decision{Outcome: plan.Placed})
	calls := 0
	for {
		before := compared
		w, ok := q.Pop(at(2))
		if calls++; compared-before > 20*DefaultSlice {
			t.Fatalf("one call compared %d times", compared-before)
		}
		if ok {
			if w.First().Name != "light" {
				t.Errorf("%s has its turn", w.First())
			}
			SettlePod(q, at(2), w, plan.Decision{Outcome: plan.Placed})
			break
		}
		if !q.Unfinished() {
			t.Fatal("no pod has its turn")
		}
	}
	if calls != many/DefaultSlice {
		t.Errorf("taken apart in %d calls, want %d", calls, many/DefaultSlice)
	}
	compared = 0
	for range 100 {
		w, _ := q.Pop(at(3))
		q.Charge(w, &price.Bill{price.Nodes: 20 * price.Millisecond})
		SettlePod(q, at(3), w, plan.Decision{Outcome: plan.Placed})
	}
	if compared > 100*30 {
		t.Errorf("100 turns compared %d times", compared)
	}
}

// TestUnfinishedTurnIsCharged has an unfinished turn. The other pods must go in
// between, and the turn must remain the same attempt.
func TestUnfinishedTurnIsCharged(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(podIn("heavy", "heavy", 0)))
	q.Wake(at(1), arrived(podsIn("light", 2, 0)...))
	w := pop(t, q, at(2), "heavy")
	w.Outcome = plan.Unfinished
	q.Charge(w, &price.Bill{price.Devices: 20 * price.Millisecond})
	SettlePod(q, at(2), w, plan.Decision{Outcome: plan.Unfinished})
	if d, _ := q.Describe(at(2), w.First().Key()); !d.Yields || d.Cost != 20*price.Millisecond || d.Attempts != 0 || d.Ahead.Pods != 2 || d.Place != "active" {
		t.Errorf("it is described as %+v, with %+v ahead", d, d.Ahead)
	}
	if got := turns(t, q, at(2), map[string]float64{"heavy": 5, "light": 1}); !slices.Equal(got, []string{"light0", "light1", "heavy"}) {
		t.Errorf("turns in the order %q", got)
	}
	if cost := q.entries[w.First().Key()].cost; cost != 25*price.Millisecond {
		t.Errorf("both rounds cost %d units", cost)
	}
}

// outsideSort is an out-of-tree QueueSort plugin that orders pods by name.
type outsideSort struct{}

func (outsideSort) Name() string                 { return "ByName" }
func (outsideSort) Less(a, b plugin.Queued) bool { return a.Pod.Name < b.Pod.Name }

// TestOutsideOrderIsKept checks that no pod yields under an out-of-tree QueueSort
// plugin, whatever the cost of turns.
func TestOutsideOrderIsKept(t *testing.T) {
	for _, sort := range []*plugin.QueueSort{plugintest.PartsOf(outsideSort{}).QueueSort, prioritysort.New().Parts().QueueSort} {
		q, err := New(Config{
			Profiles:       []*plugin.Profile{{QueueSort: sort}},
			BackoffInitial: time.Second, MaxBackoff: 10 * time.Second, MaxParked: 5 * time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		q.Wake(at(0), state.Delta{Arrived: podsIn("heavy", 3, 0)})
		q.Wake(at(1), state.Delta{Arrived: podsIn("light", 2, 0)})
		want := []string{"heavy0", "heavy1", "heavy2", "light0", "light1"}
		if sort.Name == ownSort {
			want = []string{"heavy0", "light0", "light1", "heavy1", "heavy2"}
		}
		if got := turns(t, q, at(2), map[string]float64{"heavy": 50}); !slices.Equal(got, want) {
			t.Errorf("%s: turns in the order %q, want %q", sort.Name, got, want)
		}
	}
}

// TestIdleAccountGainsNoCredit has a namespace that pauses while another one has
// expensive turns. Afterwards they take turns: the pause gives no credit.
func TestIdleAccountGainsNoCredit(t *testing.T) {
	q := newQueue(t)
	prices := map[string]float64{"a": 5, "b": 5}
	a, b := podsIn("a", 11, 0), podsIn("b", 30, 0)
	q.Wake(at(0), arrived(append(slices.Clone(a[:1]), b[:20]...)...))
	turns(t, q, at(2), prices)
	q.Wake(at(3), arrived(append(slices.Clone(a[1:]), b[20:]...)...))
	ahead := 0
	for i, name := range turns(t, q, at(4), prices) {
		if ahead++; name[0] == 'b' {
			ahead -= 2
		}
		if ahead < -2 || ahead > 2 {
			t.Fatalf("after %d turns a is %d turns ahead", i+1, ahead)
		}
	}
}

// TestDebtIsBounded has expensive turns while no other pod is ready, many or a single
// one. Later pods of others go first for a bounded amount of work.
func TestDebtIsBounded(t *testing.T) {
	for _, cost := range []float64{100, 50_000} { // milliseconds
		q := newQueue(t)
		prices := map[string]float64{"heavy": cost, "light": 1.9}
		q.Wake(at(0), arrived(podsIn("heavy", int(50_000/cost), 0)...))
		turns(t, q, at(0), prices)
		q.Wake(at(1), arrived(podIn("heavy", "again", 0)))
		q.Wake(at(2), arrived(podsIn("light", 1000, 0)...))
		const most = maxOwed/(19*price.Millisecond/10) + 1
		if before := slices.Index(turns(t, q, at(3), prices), "again"); before > most {
			t.Errorf("turns of %v ms: %d turns of others came first, want at most %d", cost, before, most)
		}
	}
}

// TestExpensiveInLargeCluster has the same turn in a small and in a large cluster, where
// ordinary turns cost more.
func TestExpensiveInLargeCluster(t *testing.T) {
	for nodes, want := range map[int]int{1000: 1, 10_000: 0} {
		q := newQueue(t)
		var changes []model.Change
		for i := range nodes {
			node := model.NewNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", i)}})
			changes = append(changes, model.Change{Kind: model.NodeSet, Node: node})
		}
		q.Wake(at(0), q.State().Apply(changes))
		q.Wake(at(0), arrived(podsIn("a", 1, 0)...))
		turn(t, q, at(1), map[string]float64{"a": 3})
		if open, _ := q.Accounts(); open != want {
			t.Errorf("%d nodes: %d accounts after a turn of 3 ms, want %d", nodes, open, want)
		}
	}
}

// charge pops the next pod and charges its turn.
func charge(t *testing.T, q *Queue, milliseconds float64, unfinished bool) {
	t.Helper()
	w, ok := q.Pop(at(0))
	if !ok {
		t.Fatal("no pod is ready")
	}
	if unfinished {
		w.Outcome = plan.Unfinished
	}
	q.Charge(w, &price.Bill{price.Nodes: int64(milliseconds * price.Millisecond)})
	SettlePod(q, at(0), w, plan.Decision{Outcome: plan.Placed})
}

// TestNewAccountStartsLevel opens an account after another namespace had many expensive
// turns. From then on they take turns.
func TestNewAccountStartsLevel(t *testing.T) {
	q := newQueue(t)
	prices := map[string]float64{"a": 5, "b": 5}
	a := podsIn("a", 30, 0)
	q.Wake(at(0), arrived(a[:20]...))
	turns(t, q, at(0), prices)
	q.Wake(at(1), arrived(append(podsIn("b", 10, 0), a[20:]...)...))
	ahead := 0
	for i, name := range turns(t, q, at(2), prices) {
		if ahead++; name[0] == 'a' {
			ahead -= 2
		}
		if ahead > 2 {
			t.Fatalf("after %d turns b is %d turns ahead", i+1, ahead)
		}
	}
}

// TestUnfinishedTurnOpensAccount has an unfinished turn that cost little so far.
func TestUnfinishedTurnOpensAccount(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(podIn("a", "p", 0)))
	charge(t, q, 0.1, true)
	if open, _ := q.Accounts(); open != 1 {
		t.Errorf("%d accounts, want 1", open)
	}
}

// TestOldestAccountCloses opens one account more than the limit.
func TestOldestAccountCloses(t *testing.T) {
	q := newQueue(t)
	for i := range maxAccounts + 1 {
		q.Wake(at(0), arrived(podIn(fmt.Sprint("tenant-", i), "p", 0)))
		charge(t, q, 3, false)
	}
	for name, want := range map[string]bool{"tenant-0": false, "tenant-1": true, fmt.Sprint("tenant-", maxAccounts-1): true, fmt.Sprint("tenant-", maxAccounts): true} {
		if open := q.accounts.byNamespace[name] != nil; open != want {
			t.Errorf("the account of %s is open: %t, want %t", name, open, want)
		}
	}
}

// TestOwnCheapTurnsPayNothing has cheap turns of a namespace with a debt. Only the turns
// of others pay it.
func TestOwnCheapTurnsPayNothing(t *testing.T) {
	q := newQueue(t)
	q.Wake(at(0), arrived(podsIn("heavy", 5, 0)...))
	charge(t, q, 10, false)
	for range 4 {
		charge(t, q, 1, false)
	}
	if d := q.accounts.debtAt(0); d == nil || d.units != 10*price.Millisecond {
		t.Errorf("the debt is %v, want 10 ms", d)
	}
}

// TestSmallestDebtIsDropped owes work at one priority more than the limit.
func TestSmallestDebtIsDropped(t *testing.T) {
	q := newQueue(t)
	for i := range maxDebts + 1 {
		q.Wake(at(0), arrived(podIn("heavy", fmt.Sprint("p", i), int32(i))))
		charge(t, q, float64(100-i), false)
	}
	for priority, want := range map[int32]bool{0: true, maxDebts - 2: true, maxDebts - 1: false, maxDebts: true} {
		if owed := q.accounts.debtAt(priority) != nil; owed != want {
			t.Errorf("work is owed at priority %d: %t, want %t", priority, owed, want)
		}
	}
}

// TestAccountWithReadyPodsStays has a pod of low priority wait beside much work of
// others. Its account must not close before its turn, and closes with its debts later.
func TestAccountWithReadyPodsStays(t *testing.T) {
	q := newQueue(t)
	prices := map[string]float64{"heavy": 30, "light": 1.5}
	q.Wake(at(0), arrived(podIn("heavy", "high", 10)))
	turn(t, q, at(0), prices)
	q.Wake(at(1), arrived(append(podsIn("light", 800, 0), podIn("heavy", "low", -5))...))
	prices["heavy"] = 0.1
	got := turns(t, q, at(2), prices)
	if open, _ := q.Accounts(); got[len(got)-1] != "low" || open != 0 || len(q.accounts.owed) != 0 {
		t.Errorf("%s had the last turn, %d accounts are open, and %v is owed", got[len(got)-1], open, q.accounts.owed)
	}
}

// TestGroupIsChargedAtItsPriority charges the turn of a group whose first member has
// another priority.
func TestGroupIsChargedAtItsPriority(t *testing.T) {
	q := newQueue(t)
	pod := podIn("heavy", "member", 0)
	work := plan.ForGroup(&model.PodGroup{Priority: 7}, nil, []plan.QueuedPod{{Pod: pod}})
	q.Charge(work, &price.Bill{price.Nodes: 10 * price.Millisecond})
	if q.accounts.debtAt(7) == nil || q.accounts.debtAt(0) != nil {
		t.Errorf("%v is owed, want a debt at priority 7", q.accounts.owed)
	}
}
