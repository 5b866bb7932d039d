package storage

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestWorkIsThatOfWhatChanges counts the reported slots, the matches of nodes against
// selectors, and the recounted claims. It makes one change each in a store with many of
// everything.
func TestWorkIsThatOfWhatChanges(t *testing.T) {
	const nodes, claims = 600, 3000
	s := shared(nodes, 2*nodes)
	for i := range claims {
		s.Set(boundClaim(i, 1))
		s.Set(boundVolume(i, 1))
		s.Place(int32(i%nodes), userOf(fmt.Sprint("pod-", i), fmt.Sprint("claim-", i)))
		s.Set(model.NewClaim(build.PersistentVolumeClaim(fmt.Sprint("waiting-", i), "storage=1Gi class=fast")))
	}
	for i := range nodes {
		s.Set(capacityOf(i, "1Gi"))
		s.Set(freeVolume(fmt.Sprint("local-", i), "local", fmt.Sprintf("zone In z%d; host In node-%d", i%3, i)))
		s.Set(freeVolume(fmt.Sprint("either-", i), "local", fmt.Sprintf("host In node-%d,node-%d", i, (i+1)%nodes)))
		s.Set(freeVolume(fmt.Sprint("shared-", i), "shared", "zone In z1"))
	}
	s.Set(model.NewClaim(build.PersistentVolumeClaim("common", "storage=1Gi class=fast")))
	for i := range 2 * nodes {
		s.Place(int32(i%nodes), userOf(fmt.Sprint("common-", i), "common"))
	}
	set := func(object model.Compiled) func() { return func() { s.Set(object) } }
	gone := func(object model.Compiled) func() { return func() { s.Remove(object.Ref()) } }
	labels := func(i int, key, value string) func() {
		of := nodeLabels(i)
		of[key] = value
		return func() { s.SetNode(int32(i), true, of) }
	}
	only := freeVolume("only", "other", "zone In z2")
	fast := model.NewStorageClass(build.StorageClass("fast", "provisioner=d"))
	for _, row := range []struct {
		what   string
		change func()
		want   Work
	}{
		{"a new version of a claim that all nodes use", set(boundClaim(0, 2)), Work{}},
		{"one more user of it", func() { s.Place(17, userOf("one-more", "claim-0")) }, Work{Touched: 1}},
		{"one fewer", func() { s.Displace(17, userOf("one-more", "claim-0")) }, Work{Touched: 1}},
		{"a new version of its volume, attached to all nodes", set(boundVolume(0, 2)), Work{}},
		{"a new version of an attachment", set(model.NewVolumeAttachment(build.VolumeAttachment("shared-17", "attacher=d node=node-17 volume=volume-0 version=2"))), Work{}},
		{"an attachment goes", gone(model.NewVolumeAttachment(build.VolumeAttachment("shared-17", ""))), Work{Touched: 1}},
		{"a claim that no pod uses", set(boundClaim(claims, 1)), Work{}},
		{"its volume", set(boundVolume(claims, 1)), Work{}},
		{"a claim of one pod goes", gone(boundClaim(17, 1)), Work{Counted: 1, Touched: 1}},
		{"and comes again", set(boundClaim(17, 1)), Work{Counted: 1, Touched: 1}},
		{"its volume goes", gone(boundVolume(17, 1)), Work{Counted: 1, Touched: 1}},
		{"the class goes, of which one claim in use is not bound, and one lacks its volume", gone(fast), Work{Counted: nodes + 1, Touched: nodes + 1}},
		{"and comes again", set(fast), Work{Counted: nodes + 1, Touched: nodes + 1}},
		{"the same class again", set(fast), Work{}},
		{"the claim that all nodes use is bound", set(model.NewClaim(build.PersistentVolumeClaim("common", "bound=volume-1"))), Work{Counted: nodes, Touched: nodes}},
		{"a CSINode again", set(model.NewCSINode(build.CSINode("node-17", "d=25"))), Work{}},
		{"with another limit", set(model.NewCSINode(build.CSINode("node-17", "d=24"))), Work{Touched: 1}},
		{"a local volume again", set(freeVolume("local-17", "local", "zone In z2; host In node-17")), Work{}},
		{"with another label, which claims may select", func() {
			v := build.PersistentVolume("local-17", "class=local storage=1Gi", build.VolumeAffinity("zone In z2; host In node-17"))
			v.Labels = map[string]string{"share": "x"}
			s.Set(model.NewVolume(v))
		}, Work{Touched: 2}},
		{"a local volume goes", gone(freeVolume("local-17", "", "")), Work{Touched: 1}},
		{"a local volume with a reach of its own", set(freeVolume("local-x", "local", "zone In z2; host In node-17; arch Exists")), Work{Matched: 1, Touched: 1}},
		{"a volume of two terms", set(model.NewVolume(build.PersistentVolume("terms", "class=local", build.VolumeAffinity("host In node-1", "zone In z1; host In node-4")))),
			Work{Matched: 2, Touched: 2}},
		{"a free volume of a zone among many", set(freeVolume("shared-x", "shared", "zone In z1")), Work{}},
		{"the only one of another zone", set(only), Work{Matched: nodes / 3}},
		{"goes", gone(only), Work{}},
		{"and comes again", set(only), Work{}},
		{"a capacity in another size", set(capacityOf(17, "2Gi")), Work{Touched: 1}},
		{"a capacity goes", gone(capacityOf(17, "2Gi")), Work{Touched: 1}},
		{"a label that no selector looks at", labels(20, "other", "x"), Work{}},
		// Its capacity, its local volume and two others are filed under the node's name;
		// the shared volumes are filed under the zone.
		{"another zone", labels(20, "zone", "z1"), Work{Matched: 5}},
		{"a node goes", func() { s.SetNode(30, false, nil) }, Work{}},
		{"a node comes", func() { s.SetNode(30, true, nodeLabels(30)) }, Work{Matched: 4}},
	} {
		before := s.Work()
		row.change()
		after := s.Work()
		if have := (Work{after.Matched - before.Matched, after.Counted - before.Counted, after.Touched - before.Touched}); have != row.want {
			t.Errorf("%s: %+v, want %+v", row.what, have, row.want)
		}
	}
}

// TestMemoryIsGivenBack adds and removes 5,000 claims with pods, volumes and attachments,
// and as many free volumes, local and shared.
func TestMemoryIsGivenBack(t *testing.T) {
	const nodes, many = 1000, 5_000
	s := large(nodes, 10)
	heap := func() uint64 {
		var m runtime.MemStats
		// Measure until interned values have been released, too.
		for least := uint64(math.MaxUint64); ; least = m.HeapAlloc {
			runtime.GC()
			if runtime.ReadMemStats(&m); m.HeapAlloc+m.HeapAlloc/200 >= least {
				return m.HeapAlloc
			}
		}
	}
	round := func() {
		for i := 100; i < many; i++ {
			s.Set(boundClaim(i, 1))
			s.Set(boundVolume(i, 1))
			s.Place(int32(i%nodes), userOf(fmt.Sprint("pod-", i), fmt.Sprint("claim-", i)))
			s.Place(int32(i%nodes), userOf(fmt.Sprint("common-", i), "claim-1"))
			s.Set(model.NewVolumeAttachment(build.VolumeAttachment(fmt.Sprint("attachment-", i), fmt.Sprintf("attacher=d node=elsewhere-%d volume=volume-1", i))))
			s.Set(freeVolume(fmt.Sprint("shared-", i), "shared", "zone In z1"))
			s.Set(freeVolume(fmt.Sprint("local-", i), "local", fmt.Sprint("host In somewhere-", i)))
			s.Set(model.NewVolume(build.PersistentVolume(fmt.Sprint("odd-", i), fmt.Sprint("class=shared label=own=", i))))
			s.Set(capacityOf(i, "1Gi"))
			if i%1000 == 0 {
				s.Shrink()
			}
		}
		s.Shrink()
		for name, peak := range s.peaks.byName() {
			if peak <= 1024 {
				t.Errorf("%s: the largest size is %d; the test must fill it", name, peak)
			}
		}
		for i := 100; i < many; i++ {
			s.Remove(boundClaim(i, 1).Ref())
			s.Remove(boundVolume(i, 1).Ref())
			s.Displace(int32(i%nodes), userOf(fmt.Sprint("pod-", i), fmt.Sprint("claim-", i)))
			s.Displace(int32(i%nodes), userOf(fmt.Sprint("common-", i), "claim-1"))
			s.Remove(model.Ref{Kind: model.VolumeAttachmentKind, Name: fmt.Sprint("attachment-", i)})
			for _, name := range []string{"shared-", "local-", "odd-"} {
				s.Remove(model.VolumeRef(fmt.Sprint(name, i)))
			}
			s.Remove(capacityOf(i, "1Gi").Ref())
			if i%1000 == 0 {
				s.Shrink()
			}
		}
		s.Shrink()
	}
	kept, atFirst := s.Sizes(), heap()
	round()
	before := heap()
	round()
	after := heap()
	now := s.Sizes()
	if before > atFirst+1<<20 {
		t.Errorf("the heap has %d KiB, %d KiB before everything came and went", before>>10, atFirst>>10)
	}
	if now.Reaches > kept.Reaches+maxIdle {
		t.Errorf("%d reaches are kept", now.Reaches)
	}
	if now.Reaches = kept.Reaches; now != kept {
		t.Errorf("kept: %+v, want %+v", now, kept)
	}
	if after > before+200<<10 {
		t.Errorf("the heap has %d KiB, %d KiB after everything came and went for the first time", after>>10, before>>10)
	}
	for name, peak := range s.peaks.byName() {
		if peak > 1024+nodes {
			t.Errorf("%s has room for %d", name, peak)
		}
	}
	runtime.KeepAlive(s)
}

// byName returns each of the sizes.
func (p *peaks) byName() map[string]int {
	return map[string]int{
		"claims": p.claims, "volumes": p.volumes, "nodes": p.nodes, "attachments": p.attachments, "capacities": p.capacities, "used": p.used,
		"preBound": p.preBound, "reaches": p.reaches,
	}
}
