package storage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// auditedWorld has some of everything that Audit checks:
//
//   - 20 nodes in zone z1, and a deleted node in z2
//   - claims in use, with a volume and without
//   - groups and capacities that are narrow, wide and for all nodes
//   - an attachment and an idle reach
func auditedWorld(t *testing.T) *world {
	w := newWorld(t)
	for i := range 20 {
		name := fmt.Sprint("n", i)
		w.setNode(name, map[string]string{"host": name, "zone": "z1"})
	}
	ghost := w.setNode("ghost", map[string]string{"host": "ghost", "zone": "z2"})
	w.setClass(build.StorageClass("a", "provisioner=d"))
	w.setCSINode(build.CSINode("n0", "d=2"))
	for name, text := range map[string]string{"bound": "bound=used", "unbound": "class=a", "p-eph": "class=a owner=other", "unused": "class=a"} {
		w.setClaim(build.PersistentVolumeClaim(name, text))
	}
	w.setVolume(build.PersistentVolume("used", "csi=d/h claim=default/bound phase=Bound"), false)
	w.setVolume(build.PersistentVolume("held", "storage=1Gi class=a"), false)
	w.hold("held", model.PodKey{Namespace: "default", Name: "q"})
	w.setVolume(build.PersistentVolume("anywhere", "storage=1Gi class=a"), false)
	w.setVolume(build.PersistentVolume("local", "storage=1Gi class=a", build.VolumeAffinity("host In n0")), false)
	for i := range 2 {
		w.setVolume(build.PersistentVolume(fmt.Sprint("zonal", i), "storage=1Gi class=a", build.VolumeAffinity("zone In z1")), false)
	}
	w.setVolume(build.PersistentVolume("labelled", "storage=1Gi class=a label=x=1", build.VolumeAffinity("zone In z1")), false)
	w.setVolume(build.PersistentVolume("general", "storage=1Gi class=a", build.VolumeAffinity("zone NotIn z1")), false)
	w.setVolume(build.PersistentVolume("left", "storage=1Gi class=a", build.VolumeAffinity("host In n1")), false)
	w.removeVolume("left")
	w.setCapacity(build.CSIStorageCapacity("one", "class=a capacity=1Gi", "host=n0"))
	w.setCapacity(build.CSIStorageCapacity("zone", "class=a capacity=1Gi", "zone=z1"))
	w.setCapacity(build.CSIStorageCapacity("zone2", "class=a capacity=2Gi", "zone=z1"))
	w.setAttachment(build.VolumeAttachment("at", "attacher=d node=n0 volume=used"))
	w.setAttachment(build.VolumeAttachment("at2", "attacher=d node=n1 volume=used"))
	w.place(0, pod("p", build.Claims("bound unbound"), build.Ephemeral("eph"), build.Disks("ebs=vol-1"), build.Disks("ebs=aws://zone/bad")))
	w.place(1, pod("r", build.Claims("unbound")))
	w.place(ghost, pod("g", build.Claims("unbound")))
	w.removeNode(ghost)
	w.audit()
	return w
}

// TestAuditFindsEachViolation corrupts a store in one way after the other. The sentence
// names the fault.
func TestAuditFindsEachViolation(t *testing.T) {
	key := func(name string) model.ClaimKey { return model.ClaimKey{Namespace: "default", Name: name} }
	bound := func(s *Store) *claim { return s.claims[key("bound")] }
	unbound := func(s *Store) *claim { return s.claims[key("unbound")] }
	n0 := func(s *Store) *Node { return s.nodes["n0"] }
	local := func(s *Store) *Group { return s.volumes["local"].group }
	zonal := func(s *Store) *Group { return s.volumes["zonal0"].group }
	general := func(s *Store) *reach { return s.volumes["general"].group.reach }
	ref := func(name string) model.Ref {
		return model.Ref{Kind: model.CSIStorageCapacityKind, Namespace: "default", Name: name}
	}
	zone := func(s *Store) *capacity { return s.capacities[ref("zone")] }
	h := handle{"d", "h"}
	for _, row := range []struct {
		want    string
		corrupt func(s *Store)
	}{
		{"claim default/none is kept, and should not be", func(s *Store) { s.claimOf(key("none")) }},
		{"claim default/bound is listed as default/other", func(s *Store) { s.claims[key("other")] = bound(s) }},
		{"claim default/unbound is {exists true, users 3", func(s *Store) { unbound(s).users++ }},
		{"is not at position 0", func(s *Store) { unbound(s).on[0].at = 1 }},
		{"a use of claim default/unbound on node n0", func(s *Store) { delete(n0(s).uses, unbound(s)) }},
		{`on ["ghost:1/1" "n0:2/1" "n1:1/1"]`, func(s *Store) { unbound(s).on[0].times++ }},
		{"is {{ } false}, of volume", func(s *Store) { bound(s).is = identity{} }},
		{"claim default/bound is not at position 1 of volume used", func(s *Store) { bound(s).atVolume = 1 }},
		{"claim default/unbound is not at position 7 of class a", func(s *Store) { unbound(s).atClass = 7 }},
		{`of volume "", of class ""}, recounted`, func(s *Store) { bound(s).volume = nil }},
		{`of class ""}, recounted`, func(s *Store) { unbound(s).class = nil }},
		{"volume none is kept", func(s *Store) { s.volumeOf("none") }},
		{"volume held is listed as other", func(s *Store) { s.volumes["other"] = s.volumes["held"] }},
		{`volume used is {exists true, claims []`, func(s *Store) { s.volumes["used"].claims = nil; bound(s).volume = nil }},
		{"is not at position 0 of volume used", func(s *Store) { s.volumes["used"].attachments = nil }},
		{"attachment at is not at position", func(s *Store) { s.attachments["at"].at = 1 }},
		{"attachment at has a node: false, a volume: true", func(s *Store) { s.attachments["at"].node = nil }},
		{"attachment at is {of volume", func(s *Store) { s.attachments["at"].is = handle{} }},
		{"volume held is held by pod default/thief", func(s *Store) {
			s.volumes["held"].holders = []model.PodKey{{Namespace: "default", Name: "thief"}}
		}},
		{`volume held is {exists true, claims [], attachments [], in group ""}, recounted`, func(s *Store) { s.volumes["held"].holders = nil }},
		{`volume local is {exists true, claims [], attachments [], in group ""}`, func(s *Store) { s.volumes["local"].group = nil }},
		{"class none is kept", func(s *Store) { s.classNamed("none") }},
		{`class a is {exists true, claims ["default/unbound"]`, func(s *Store) {
			s.classes["a"].claims = s.classes["a"].claims[:0]
			s.classes["a"].claims = append(s.classes["a"].claims, unbound(s))
			unbound(s).atClass, s.claims[key("p-eph")].class = 0, nil
		}},
		{"groups 5, capacities 3", func(s *Store) { s.classes["a"].groups[model.NeedOf("x")] = &Group{class: s.classes["a"]} }},
		{"capacities 4}", func(s *Store) { s.classes["a"].capacities++ }},
		{`volumes []}, recounted`, func(s *Store) { local(s).volumes = volumeList{} }},
		{"volume labelled of class a is listed after zonal0", func(s *Store) {
			p := zonal(s).volumes.parts[0]
			p[0], p[1] = p[1], p[0]
		}},
		{"part 1 of a group of class a has 0 volumes", func(s *Store) { zonal(s).volumes.parts = append(zonal(s).volumes.parts, nil) }},
		{"a group says position 5, and is at position", func(s *Store) { zonal(s).at = 5 }},
		{"class a lists 1 wide groups, recounted 2", func(s *Store) { s.classes["a"].wideGroups = s.classes["a"].wideGroups[:1] }},
		{"class a lists 1 wide capacities, recounted 2", func(s *Store) { s.classes["a"].wideCapacities = s.classes["a"].wideCapacities[:1] }},
		{"capacity zone says position 5", func(s *Store) { zone(s).at = 5 }},
		{`reach ""}`, func(s *Store) { zone(s).reach = nil }},
		{"capacity {12 default other} is {ref {12 default one}", func(s *Store) { s.capacities[ref("other")] = s.capacities[ref("one")] }},
		{"node none is kept", func(s *Store) { s.nodeOf("none") }},
		{"node n0 is listed as other", func(s *Store) { s.nodes["other"] = n0(s) }},
		{"node n0 is not on slot 3", func(s *Store) { n0(s).slot = 3 }},
		{"node n1 is not on slot 0", func(s *Store) { s.nodes["n1"].slot = 0 }},
		{"the node on slot 0 is not kept", func(s *Store) { delete(s.nodes, "n0") }},
		{"node n0 is {slot 0, alive false", func(s *Store) { n0(s).alive = false }},
		{"node n0 has the labels host=n0,zone=z1, and is known by ", func(s *Store) { n0(s).labels = nil }},
		{"CSINode true, attachments 2", func(s *Store) { n0(s).attachments++ }},
		{"refs map[{d claim without a volume: default/p-eph}:{1 0}", func(s *Store) { n0(s).refs[h] = references{2, 1} }},
		{"volumes map[d:4", func(s *Store) { n0(s).volumes["d"]++ }},
		{"migrated map[]", func(s *Store) { clear(n0(s).migrated) }},
		{"disks []", func(s *Store) { n0(s).disks = nil }},
		{"ephemeral []", func(s *Store) { n0(s).ephemeral = nil }},
		{"other false}", func(s *Store) { n0(s).ephemeral[0].uid, n0(s).ephemeral[0].foreign = "other", false }},
		{"untranslated []", func(s *Store) { n0(s).untranslated = nil }},
		{"bound in advance to default/bound is not kept", func(s *Store) { clear(s.preBound) }},
		{"bound in advance to default/other is kept", func(s *Store) { s.preBound[key("other")] = s.preBound[key("bound")] }},
		{"and positions of 0", func(s *Store) { clear(local(s).reach.at) }},
		{"node n0 is not at position 0 of reach", func(s *Store) { local(s).reach.at[n0(s)] = 4 }},
		{"node n0 lists the reach", func(s *Store) { n0(s).reaches = append(n0(s).reaches, local(s).reach) }},
		{"and should not be", func(s *Store) { r := local(s).reach; r.nodes[0] = s.nodes["n2"] }},
		{"of 1 nodes is narrow: false", func(s *Store) { local(s).reach.narrow = false }},
		{"is of a class that has nothing in it", func(s *Store) { local(s).reach.share(s.classNamed("none")) }},
		{"is idle 1 times, and of 1 classes", func(s *Store) { s.reaches.idle = append(s.reaches.idle, local(s).reach) }},
		{"is idle 0 times, and of 0 classes", func(s *Store) { s.reaches.idle = nil }},
		{"is idle and not kept", func(s *Store) { delete(s.reaches.byText, s.reaches.idle[0].text) }},
		{"33 reaches are idle", func(s *Store) {
			for len(s.reaches.idle) <= maxIdle {
				s.reaches.idle = append(s.reaches.idle, s.reaches.idle[0])
			}
		}},
		{"is filed nowhere", func(s *Store) { s.reaches.general = nil }},
		{"2 reaches are filed nowhere, recounted 1", func(s *Store) { s.reaches.general = append(s.reaches.general, general(s)) }},
		{"is not filed under {host n0}", func(s *Store) { delete(s.reaches.byKey["host"].reaches, "n0") }},
		{"is filed under [{host n9}], it demands", func(s *Store) { local(s).reach.filed = []label{{"host", "n9"}} }},
		{"reaches are filed under host=n0, recounted", func(s *Store) {
			by := s.reaches.byKey["host"]
			by.reaches["n0"] = append(by.reaches["n0"], general(s))
		}},
		{"values of label zone are demanded by 9 reaches, recounted", func(s *Store) { s.reaches.byKey["zone"].demanded = 9 }},
		{"values of label zone are demanded by no reach", func(s *Store) { delete(s.reaches.byKey, "zone") }},
		{"node n3 is not listed under zone=z1", func(s *Store) { s.reaches.byKey["zone"].nodes["z1"] = []*Node{n0(s)} }},
		{"1 nodes are listed under zone=z2, recounted 0", func(s *Store) { s.reaches.byKey["zone"].nodes["z2"] = []*Node{n0(s)} }},
		{"label zone is mentioned by 9 reaches", func(s *Store) { s.reaches.mentions["zone"] = 9 }},
		{"label none is mentioned by 0 reaches, recounted 0", func(s *Store) { s.reaches.mentions["none"] = 0 }},
		{"label host is mentioned by 0 reaches", func(s *Store) { delete(s.reaches.mentions, "host") }},
		{`use of {d h} is 4 on ["n0" "n1"], recounted 3 on ["n0" "n1"]`, func(s *Store) { s.used[h].count(n0(s), 1) }},
		{"nominated is {slot -1, alive false", func(s *Store) { s.nominated.attachments++ }},
		{"slots is", func(s *Store) { s.bySlot = append(s.bySlot, nil) }},
	} {
		w := auditedWorld(t)
		row.corrupt(w.store)
		v := audit.Of("storage")
		w.store.Audit(v, w.seats(), w.nominated, func(ref model.Ref, pod model.PodKey) bool { return w.holders[ref.Name][pod] })
		if err := v.Err(); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("want a violation with %q, have\n%v", row.want, err)
		}
	}
}
