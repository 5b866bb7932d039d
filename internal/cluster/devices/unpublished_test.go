package devices

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/model"
)

// counterSlice returns a slice of a pool that has one counter set.
func counterSlice(name, on, pool string, generation int64, memory string) *model.ResourceSlice {
	return changed(slice(name, on, pool, generation), func(s *resourcev1.ResourceSlice) {
		s.Spec.SharedCounters = []resourcev1.CounterSet{{Name: "card", Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse(memory)}}}}
	})
}

// partitions returns a slice of a pool whose devices are written NAME=MEMORY, or NAME if
// they consume no counters.
func partitions(name, on, pool string, generation int64, devices ...string) *model.ResourceSlice {
	return changed(slice(name, on, pool, generation), func(s *resourcev1.ResourceSlice) {
		for _, d := range devices {
			device, memory, consumes := strings.Cut(d, "=")
			partition := resourcev1.Device{Name: device}
			if consumes {
				partition.ConsumesCounters = []resourcev1.DeviceCounterConsumption{{
					CounterSet: "card", Counters: map[string]resourcev1.Counter{"memory": {Value: resource.MustParse(memory)}},
				}}
			}
			s.Spec.Devices = append(s.Spec.Devices, partition)
		}
	})
}

// offered returns the memory of each counter set for the node of a slot, by slice.
func (r *recorder) offered(slot int32) string {
	var texts []string
	for _, s := range r.SlicesAt(slot, nil) {
		for _, set := range s.Spec.SharedCounters {
			memory := set.Counters["memory"].Value
			texts = append(texts, fmt.Sprintf("%s/%s=%s", s.Spec.Pool.Name, s.Name, memory.String()))
		}
	}
	return strings.Join(texts, " ")
}

func gone(ref model.Ref) func(*recorder) { return func(r *recorder) { r.Remove(ref) } }

// TestWithdrawnDevices withdraws devices from their slices in every way. Their counters
// stay in use until no claim uses the device, and are counted once when it is published
// again.
func TestWithdrawnDevices(t *testing.T) {
	set := func(o model.Compiled) func(*recorder) { return func(r *recorder) { r.Set(o) } }
	devices := model.Ref{Kind: model.ResourceSliceKind, Name: "devices"}
	claim := model.ClaimKey{Namespace: "ns", Name: "c"}.DeviceRef()
	admin := claimOf("c", "1", "p/d0")
	admin.Object.Status.Allocation.Devices.Results[0].AdminAccess = ptr.To(true)
	type step struct {
		do   func(*recorder)
		want string
	}
	for _, row := range []struct {
		name  string
		steps []step
	}{
		{"the device leaves its slice", []step{
			{set(partitions("devices", "a", "p", 1, "d1=1Gi")), "p/counters=6Gi"},
			{set(partitions("devices", "a", "p", 1, "d0=4Gi", "d1=1Gi")), "p/counters=10Gi"},
			{set(partitions("devices", "a", "p", 1, "d1=1Gi")), "p/counters=6Gi"},
			{set(claimOf("c", "1")), "p/counters=10Gi"},
			{set(claimOf("c", "1", "p/d0")), "p/counters=10Gi"},
		}},
		{"the slice goes", []step{{gone(devices), "p/counters=6Gi"}, {gone(claim), "p/counters=10Gi"}}},
		{"all slices go, and the free device comes back", []step{
			{gone(devices), "p/counters=6Gi"}, {gone(model.Ref{Kind: model.ResourceSliceKind, Name: "counters"}), ""},
			{set(partitions("devices", "a", "p", 2, "d1=1Gi")), ""}, {set(counterSlice("counters", "a", "p", 2, "10Gi")), "p/counters=6Gi"},
		}},
		{"all slices go, and then the claim", []step{
			{gone(devices), "p/counters=6Gi"}, {gone(model.Ref{Kind: model.ResourceSliceKind, Name: "counters"}), ""}, {gone(claim), ""},
			{set(counterSlice("counters", "a", "p", 1, "10Gi")), "p/counters=10Gi"},
		}},
		{"the slice moves to another pool", []step{{set(partitions("devices", "a", "q", 1, "d0=4Gi")), "p/counters=6Gi"}}},
		{"the new generation lacks the device", []step{
			{set(counterSlice("counters", "a", "p", 2, "10Gi")), "p/counters=6Gi"},
			{set(partitions("devices", "a", "p", 2, "d1=1Gi")), "p/counters=6Gi"},
			{set(partitions("old", "a", "p", 1, "d0=4Gi", "d1=1Gi")), "p/counters=6Gi"},
			{set(claimOf("c", "1")), "p/counters=10Gi"},
			{set(claimOf("d", "2", "p/d0")), "p/counters=6Gi"},
			{set(partitions("devices", "a", "p", 2, "d0=3Gi")), "p/counters=10Gi"},
		}},
		{"the pool becomes one of all nodes", []step{
			{gone(devices), "p/counters=6Gi"}, {set(counterSlice("counters", "*", "p", 1, "8Gi")), "p/counters=4Gi"}, {set(claimOf("c", "1")), "p/counters=8Gi"},
		}},
		{"one of two shares ends", []step{
			{set(claimOf("c", "1", "p/d0#x", "p/d0#y")), "p/counters=10Gi"}, {gone(devices), "p/counters=6Gi"},
			{set(claimOf("c", "1", "p/d0#x")), "p/counters=6Gi"}, {set(claimOf("c", "1")), "p/counters=10Gi"},
		}},
		{"it consumes more than is left", []step{
			{set(partitions("devices", "a", "p", 1, "d0=40Gi")), "p/counters=10Gi"}, {gone(devices), "p/counters=-30Gi"},
		}},
		{"it consumes no counters", []step{{set(partitions("devices", "a", "p", 1, "d0")), "p/counters=10Gi"}, {gone(devices), "p/counters=10Gi"}}},
		{"it is used by administrators alone", []step{{set(admin), "p/counters=10Gi"}, {gone(devices), "p/counters=10Gi"}}},
		{"the device of the node is tainted", []step{
			{set(partitions("devices", "a", "p", 1, "d1=1Gi")), "p/counters=6Gi"}, {set(rule("t", ptr.To("p"), nil)), "p/counters=6Gi"},
		}},
	} {
		r := newRecorder(t, "a")
		r.Set(counterSlice("counters", "a", "p", 1, "10Gi"))
		r.Set(partitions("devices", "a", "p", 1, "d0=4Gi", "d1=1Gi"))
		r.Set(claimOf("c", "1", "p/d0"))
		for i, s := range row.steps {
			before, key := r.offered(0), string(r.AppendKey(nil, 0))
			if s.do(r); r.offered(0) != s.want {
				t.Errorf("%s, step %d: %s, want %s", row.name, i, r.offered(0), s.want)
			}
			if r.offered(0) != before && string(r.AppendKey(nil, 0)) == key {
				t.Errorf("%s, step %d: other counters, and the same key", row.name, i)
			}
			r.mustBeSound(t)
		}
	}
}

// history is a slow twin: the counters that each device in use consumed when it was last
// published.
type history map[string]string

// follow returns the counters of all slices after a step of the store.
func (h history) follow(r *recorder) string {
	published := map[string]map[int64]string{} // memory by device and generation
	for _, name := range slices.Sorted(maps.Keys(r.slices)) {
		spec := &r.slices[name].Object.Spec
		for _, d := range spec.Devices {
			memory := "0"
			if len(d.ConsumesCounters) > 0 {
				q := d.ConsumesCounters[0].Counters["memory"].Value
				memory = q.String()
			}
			key := spec.Pool.Name + "/" + d.Name
			if published[key] == nil {
				published[key] = map[int64]string{}
			}
			published[key][spec.Pool.Generation] = memory
		}
	}
	for key := range h {
		if len(published[key]) == 0 && !r.InUse(r.idOf(key)) {
			delete(h, key)
		}
	}
	for key, by := range published {
		latest := int64(-1)
		for generation, memory := range by {
			if generation > latest {
				latest, h[key] = generation, memory
			}
		}
	}
	var texts []string
	for _, s := range r.slices {
		spec := &s.Object.Spec
		for _, set := range spec.SharedCounters {
			left := set.Counters["memory"].Value.DeepCopy()
			for key, memory := range h {
				if _, here := published[key][spec.Pool.Generation]; !here && strings.HasPrefix(key, spec.Pool.Name+"/") && r.InUse(r.idOf(key)) {
					left.Sub(resource.MustParse(memory))
				}
			}
			left.Format = set.Counters["memory"].Value.Format
			texts = append(texts, fmt.Sprintf("%s/%s=%s", spec.Pool.Name, s.Name, left.String()))
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, " ")
}

// TestCountersFollow is a property test: after random changes of slices, claims and
// promises the counters equal the slow twin's, each change is reported, and the audit
// passes. The pool p is local, w is for all nodes.
func TestCountersFollow(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 46))
		r, twin, names := newRecorder(t, "a", "b"), history{}, []string{"d0", "d1", "d2", "d3"}
		promises := map[model.Ref]bool{}
		shares := 0
		device := func() string {
			shares++ // each has an identifier of its own
			return []string{"p/", "w/"}[rnd.IntN(2)] + names[rnd.IntN(len(names))] + []string{"", "#" + strconv.Itoa(shares)}[rnd.IntN(2)]
		}
		for step := range 80 {
			r.take()
			before, keys, version := r.offered(0), [2]string{string(r.AppendKey(nil, 0)), string(r.AppendKey(nil, 1))}, r.WideVersion()
			pool, on := "p", "a"
			if rnd.IntN(2) == 0 {
				pool, on = "w", "*"
			}
			claim, pod := claimOf("c"+strconv.Itoa(rnd.IntN(4)), "1"), model.PodKey{Name: "pod"}
			switch rnd.IntN(8) {
			case 0, 1, 2:
				var devices []string
				for _, name := range names {
					if rnd.IntN(2) == 0 {
						devices = append(devices, name+[]string{"", "=1Gi", "=1500Mi", "=3G"}[rnd.IntN(4)])
					}
				}
				r.Set(partitions(pool+"-"+strconv.Itoa(rnd.IntN(2)), on, pool, int64(rnd.IntN(2)), devices...))
			case 3:
				r.Set(counterSlice(pool+"-counters", on, pool, int64(rnd.IntN(2)), strconv.Itoa(rnd.IntN(5))+"Gi"))
			case 4:
				r.Remove(model.Ref{Kind: model.ResourceSliceKind, Name: pool + []string{"-0", "-1", "-counters"}[rnd.IntN(3)]})
			case 5:
				r.Set(claimOf(claim.Key.Name, "1", device(), device()))
			case 6:
				r.Set(claim)
			case 7:
				if ref := claim.Ref(); promises[ref] {
					r.Release(ref, pod)
				} else {
					r.Hold(ref, pod, &Promise{UID: "1", Allocation: allocation(device())})
				}
				promises[claim.Ref()] = !promises[claim.Ref()]
			}
			if got, want := r.offered(0), twin.follow(r); sorted(got) != want {
				t.Fatalf("seed %d, step %d: %s, want %s", seed, step, got, want)
			}
			if r.offered(0) == before {
				continue
			}
			slots := r.take()
			for slot, key := range keys {
				if key != string(r.AppendKey(nil, int32(slot))) && r.WideVersion() == version && !slices.Contains(slots, int32(slot)) {
					t.Fatalf("seed %d, step %d: the devices of slot %d have changed, and that is not reported", seed, step, slot)
				}
			}
			if keys[0] == string(r.AppendKey(nil, 0)) {
				t.Fatalf("seed %d, step %d: the counters have changed from %s to %s, and the key has not", seed, step, before, r.offered(0))
			}
			r.mustBeSound(t)
		}
	}
}

func sorted(text string) string {
	parts := strings.Fields(text)
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// TestWithdrawnAreBounded withdraws thousands of devices, few of them in use. Only these
// are kept, and none after the claims are gone.
func TestWithdrawnAreBounded(t *testing.T) {
	r := newRecorder(t, "a")
	r.Set(counterSlice("counters", "a", "p", 1, "10Gi"))
	for round := range 50 {
		var devices []string
		for i := range 100 {
			devices = append(devices, fmt.Sprintf("d%d-%d=1Mi", round, i))
		}
		r.Set(partitions("devices", "a", "p", 1, devices...))
		r.Set(claimOf("c"+strconv.Itoa(round), "1", fmt.Sprintf("p/d%d-0", round)))
	}
	if n := len(r.withdrawn[PoolID{"drv", "p"}]); n != 49 {
		t.Errorf("%d devices are remembered, want those of 49 claims", n)
	}
	described := r.Work().Described
	for round := range 50 {
		r.Remove(model.ClaimKey{Namespace: "ns", Name: "c" + strconv.Itoa(round)}.DeviceRef())
	}
	if work := r.Work().Described - described; work > 50*110 {
		t.Errorf("%d descriptions for 50 claims", work)
	}
	if r.Sizes().Withdrawn != 0 || r.offered(0) != "p/counters=10Gi" {
		t.Errorf("%+v is kept, and %s left", r.Sizes(), r.offered(0))
	}
	r.mustBeSound(t)
}
