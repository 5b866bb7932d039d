package queue

import (
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
)

// TestFewestBuckets has a catalog with lists of different lengths. Of each way, the
// clause with the fewest buckets is taken, the first of several. A lookup counts its
// results.
func TestFewestBuckets(t *testing.T) {
	key := func(name string) model.Key { return model.Key{Name: name} }
	c := catalog{byKey: map[model.Key]*posting{}}
	if n := c.count([]model.Key{key("many")}); n != 0 {
		t.Errorf("%d buckets are listed in an empty catalog", n)
	}
	for name, buckets := range map[string]int{"many": 3, "some": 2, "few": 1} {
		for range buckets {
			c.listKeys(&bucket{}, []model.Key{key(name)})
		}
	}
	c.always.list(&bucket{})
	clause := func(names ...string) (keys model.Clause) {
		for _, name := range names {
			keys = append(keys, key(name))
		}
		return keys
	}
	for _, row := range []struct {
		way  model.Way
		want string
		n    int
	}{
		{model.Way{clause("many")}, "many", 3},
		{model.Way{clause("many"), clause("few"), clause("some")}, "few", 1},
		{model.Way{clause("few"), clause("many")}, "few", 1},
		{model.Way{clause("some"), clause("few", "many")}, "some", 2},
		{model.Way{clause("many"), clause("few", "some", "unknown")}, "many", 3},
		{model.Way{clause("few"), clause("unknown")}, "unknown", 0},
		{model.Way{clause("unknown"), clause("unheard")}, "unknown", 0},
	} {
		got := c.fewest(row.way)
		if got[0].Name != row.want || c.count(got) != row.n {
			t.Errorf("of %v %v is taken, with %d buckets; want %s, with %d", row.way, got, c.count(got), row.want, row.n)
		}
		var l lookup
		if all := l.seek(&c, []model.Way{row.way}); all || l.buckets != 1+row.n || (len(l.found) > 0) != (row.n > 0) {
			t.Errorf("a lookup of %v finds %d buckets in %d lists; everything: %t", row.way, l.buckets, len(l.found), all)
		}
	}
	var l lookup
	if l.at(&c, clause("many", "some", "unknown")); l.buckets != 1+3+2 || len(l.found) != 2 {
		t.Errorf("a lookup of two keys finds %d buckets in %d lists", l.buckets, len(l.found))
	}
	if !l.seek(&c, nil) || !l.seek(&c, []model.Way{{clause("few")}, {}}) {
		t.Error("a lookup without ways, or with one that is always met, does not find everything")
	}
	if l.seek(&c, []model.Way{{clause("few")}, {clause("some")}}) || l.buckets != 1+1+2 {
		t.Errorf("a lookup of two ways finds %d buckets", l.buckets)
	}
}

// TestEventsThatAreOver ends events one after the other. The rest moves up when the
// finished events outnumber it. The memory for found buckets is reused unless it is
// large.
func TestEventsThatAreOver(t *testing.T) {
	w := waking{pending: make([]pendingEvent, 3)}
	for i, want := range []string{"3 1", "1 0", "0 0"} {
		w.found, w.lookedUp, w.asked = make([]*bucket, 1, foundKept+i), true, 1
		w.next()
		if got := fmt.Sprint(len(w.pending), " ", w.done); got != want || w.lookedUp || len(w.found) > 0 || w.asked != 0 || (cap(w.found) > 0) != (i == 0) {
			t.Errorf("after %d events: %s events, of which some are over, want %s; memory for %d buckets", i+1, got, want, cap(w.found))
		}
	}
}

// TestRunMovesUp adds to a run whose list is full. The contents move up only if more than
// half of the list is free.
func TestRunMovesUp(t *testing.T) {
	for taken, want := range []string{"4 0 0", "4 1 0", "4 2 0", "4 0 3"} {
		r := run[*entry]{list: make([]*entry, 0, 4)}
		for range 4 {
			r.append(&entry{})
		}
		for i := range taken {
			r.take(i)
		}
		number := r.append(&entry{})
		if got := fmt.Sprint(number, " ", r.head, " ", r.zero); got != want || r.size() != 5-taken {
			t.Errorf("%d of 4 are taken out: number, beginning and first number are %s, want %s; size %d", taken, got, want, r.size())
		}
	}
}

// TestRenominate replaces waiting pods by versions with another nominated node. The pods
// keep their places.
func TestRenominate(t *testing.T) {
	q := newQueue(t)
	p := pod("p", 0)
	q.Wake(at(0), arrived(p))
	reject(q, at(0), pop(t, q, at(0), "p"), "Fit")
	other := pod("p", 0)
	other.UID = "other"
	newer := p.WithNominatedNode("n")
	q.Renominate(other, pod("unknown", 0))
	if got := q.Waiting(p.Key(), p.UID); got != p {
		t.Errorf("after another pod was nominated, %v waits", got)
	}
	q.Renominate(newer)
	if got := q.Waiting(p.Key(), p.UID); got != newer || q.Waiting(p.Key(), "other") != nil {
		t.Errorf("%v waits, want the version with the nominated node", got)
	}
	expectPlace(t, q, "p", "parked")
	expectPlace(t, q, "unknown", "")
}

// TestOrderOfBackoffs compares pods whose backoffs end at different times, and at the
// same time: by arrival after errors, by turn after rejections.
func TestOrderOfBackoffs(t *testing.T) {
	entryAt := func(seconds float64, order uint64, name string) *entry {
		return &entry{until: at(seconds), order: order, pod: pod(name, 0)}
	}
	byName := byWindowThen(func(a, b *entry) bool { return a.pod.Name < b.pod.Name })
	for _, row := range []struct {
		a, b    *entry
		errored bool // a comes before b
		backoff bool
	}{
		{entryAt(1, 2, "z"), entryAt(2, 1, "y"), true, true},
		{entryAt(2, 1, "x"), entryAt(1, 2, "y"), false, false},
		{entryAt(1, 1, "z"), entryAt(1, 2, "y"), true, false},
		{entryAt(1, 2, "x"), entryAt(1, 1, "y"), false, true},
		{entryAt(1, 1, "x"), entryAt(1, 1, "x"), false, false},
	} {
		if errored, backoff := byWindow(row.a, row.b), byName(row.a, row.b); errored != row.errored || backoff != row.backoff {
			t.Errorf("%+v before %+v: %t after errors, %t after rejections", *row.a, *row.b, errored, backoff)
		}
	}
}

// TestSplitCohort splits off the pods that were parked after a number of parkings. The
// others stay, in their order.
func TestSplitCohort(t *testing.T) {
	numbers := func(c *cohort) (parkings []uint64) {
		for m := c.first; m != nil; m = m.after {
			parkings = append(parkings, m.entry.parking)
		}
		return parkings
	}
	for parkings, want := range map[uint64]string{0: "[] [3 4 5]", 2: "[] [3 4 5]", 3: "[3] [4 5]", 4: "[3 4] [5]"} {
		c := &cohort{}
		for _, parking := range []uint64{4, 3, 5} {
			c.link(&membership{entry: &entry{parking: parking}})
		}
		later := c.split(parkings)
		if got := fmt.Sprint(numbers(c), " ", numbers(later)); got != want {
			t.Errorf("after %d parkings: %s, want %s", parkings, got, want)
		}
		if later = later.split(5); later != nil {
			t.Errorf("after 5 parkings: %v", numbers(later))
		}
	}
}

// TestParkedAnewInItsBucket changes a parked pod without effect on its hints. The pod
// stays in its bucket, which is not listed again. A version that no plugin can read is in
// no bucket.
func TestParkedAnewInItsBucket(t *testing.T) {
	q := newQueue(t)
	p := pod("p", 0)
	q.Wake(at(0), arrived(p))
	reject(q, at(0), pop(t, q, at(0), "p"), "Fit")
	memberships := func() []membership { return q.entries[p.Key()].memberships }
	before, object := memberships()[0].cohort.bucket, p.Object.DeepCopy()
	object.Labels = map[string]string{"version": "2"}
	newer := model.NewPod(object)
	q.Wake(at(1), arrived(newer))
	if e := q.entries[p.Key()]; e.pod != newer || memberships()[0].cohort.bucket != before {
		t.Error("the pod was listed anew")
	}
	if err := q.Audit(); err != nil {
		t.Error(err)
	}
	malformed := *newer
	malformed.Malformed = "no"
	q.Wake(at(2), arrived(&malformed))
	if n := len(memberships()); n != 0 || len(q.parked.byPlugin) != 1 {
		t.Errorf("%d memberships, %d plugins", n, len(q.parked.byPlugin))
	}
	if err := q.Audit(); err != nil {
		t.Error(err)
	}
}

// TestLongCauseIsListedByWhatItWants parks pods that need very many resources. Events
// find them by one resource; the pods are not listed under all.
func TestLongCauseIsListedByWhatItWants(t *testing.T) {
	x := newIndex(&model.EventToRegister{Cause: func(*model.Pod) model.Cause {
		cause := model.Cause{Wants: []model.Way{{}}}
		for i := range maxKeys + 1 {
			key := model.Key{Name: fmt.Sprint("r", i)}
			cause.Wants[0] = append(cause.Wants[0], model.Clause{key})
			cause.Keys = append(cause.Keys, key)
		}
		return cause
	}}, "Fit", false)
	b := x.bucketOf(pod("p", 0), model.NeedOf("many"))
	if len(b.spots) != 3 || len(x.keyed.byKey) != 0 || len(x.wanting.byKey) != 1 || len(x.keyed.always.listed) != 1 {
		t.Errorf("the bucket has %d spots, the catalogs have %d and %d lists", len(b.spots), len(x.keyed.byKey), len(x.wanting.byKey))
	}
}
