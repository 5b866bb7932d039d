package storage

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

var seeds = flag.Int("seeds", 3, "random histories of the store")

// TestStoreCounts applies random histories to a store. After each change, the store's
// nodes, claims and classes must equal a recount of the API objects, and each changed
// slot must have been reported. A usage with a pod added or removed must equal the
// store's after the same change.
func TestStoreCounts(t *testing.T) {
	for seed := range *seeds {
		h := &history{world: newWorld(t), r: rand.New(rand.NewPCG(uint64(seed), 7))}
		for range 70 { // enough for reaches that become wide and narrow again
			h.node()
		}
		for step := range 1000 {
			h.leaving = step/100%2 == 1
			h.step(fmt.Sprintf("seed %d, step %d", seed, step))
			if t.Failed() {
				return
			}
		}
	}
}

// history makes random changes.
type history struct {
	*world
	r    *rand.Rand
	pods int
	// leaving means that more nodes are removed than added.
	leaving bool
}

func (h *history) some(n int) int                   { return h.r.IntN(n) }
func (h *history) oneOf(words ...string) string     { return words[h.some(len(words))] }
func (h *history) oneIn(n int) bool                 { return h.some(n) == 0 }
func (h *history) name(prefix string, n int) string { return fmt.Sprint(prefix, h.some(n)) }

// step makes a change and checks the store.
func (h *history) step(when string) {
	h.t.Helper()
	before, volumes := map[string][2]string{}, map[string]counted{}
	h.store.TakeChange()
	for slot, n := range h.slots {
		if n != nil {
			before[n.name] = [2]string{h.inUse(int32(slot), n.pods), h.supply(int32(slot))}
			volumes[n.name] = h.countedOn(slot)
		}
	}
	clear(h.touched)
	moved := h.change()
	var change model.VolumesChange
	if taken := h.store.TakeChange(); taken != nil {
		change = *taken
	}
	for slot, n := range h.slots {
		if n == nil {
			if h.store.bySlot[slot] != nil {
				h.t.Errorf("%s: a free slot has a node", when)
			}
			continue
		}
		slot := int32(slot)
		want := h.inUse(slot, n.pods)
		if have := h.reported(h.store.At(slot).Usage()); have != want {
			h.t.Errorf("%s: in use on %s:\n%s, want\n%s", when, n.name, have, want)
		}
		if was, known := before[n.name]; known && n.name != moved {
			h.checkChange(when, int(slot), volumes[n.name], change)
			if was[0] != want && h.touched[slot]&model.Volumes == 0 {
				h.t.Errorf("%s: what is in use on %s has changed and was not reported", when, n.name)
			}
			if now := h.supply(slot); was[1] != now && h.touched[slot]&model.Supply == 0 {
				h.t.Errorf("%s: what is free on %s has changed and was not reported:\n%s\n->\n%s", when, n.name, was[1], now)
			}
		}
		if !n.exists || !h.oneIn(6) {
			continue
		}
		for _, class := range []string{"", "a", "b", "c"} {
			of := n.labels
			if have, want := h.saidFree(slot, class, 0), h.free(class, of); !slices.Equal(have, want) {
				h.t.Errorf("%s: free for class %q on %s: %v, want %v", when, class, n.name, have, want)
			}
			size := int64(h.some(6)) << 30
			if all, have := h.free(class, of), h.saidFree(slot, class, size); len(have) > 0 || len(all) > 0 {
				all = slices.DeleteFunc(all, func(name string) bool { return h.volumes[name].Spec.Capacity.Storage().Value() < size })
				if !slices.Equal(have, all) {
					h.t.Errorf("%s: of %d bytes free for class %q on %s: %v, want %v", when, size, class, n.name, have, all)
				}
			}
			have := ""
			if c := h.store.CapacityAt(slot, class, size); c != nil {
				have = c.Object.Name
			}
			if want := h.room(class, of, size); have != want {
				h.t.Errorf("%s: room for %d bytes of class %q on %s: %q, want %q", when, size, class, n.name, have, want)
			}
		}
	}
	h.checkClaims(when)
	if h.oneIn(10) {
		h.checkWide(when)
	}
	h.checkDrafts(when)
	h.audit()
}

func (h *history) checkClaims(when string) {
	users, boundTo := map[model.ClaimKey]int{}, map[model.ClaimKey][]string{}
	for _, n := range h.slots {
		if n == nil || !n.exists {
			continue
		}
		for _, p := range n.pods {
			named := map[model.ClaimKey]bool{}
			for _, v := range p.Object.Spec.Volumes {
				if v.PersistentVolumeClaim != nil {
					named[model.ClaimKey{Namespace: p.Namespace, Name: v.PersistentVolumeClaim.ClaimName}] = true
				}
			}
			for key := range named {
				users[key]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.volumes)) {
		if ref := h.volumes[name].Spec.ClaimRef; ref != nil {
			key := model.ClaimKey{Namespace: ref.Namespace, Name: ref.Name}
			boundTo[key] = append(boundTo[key], name)
		}
	}
	if have, want := h.usesOf(h.store.InUse), h.usedAnywhere(); !slices.Equal(have, want) {
		h.t.Errorf("%s: pods use %v, want %v", when, have, want)
	}
	for i := range 12 {
		key := model.ClaimKey{Namespace: "default", Name: fmt.Sprint("c", i)}
		if have := h.store.UsersOf(key); have != users[key] {
			h.t.Errorf("%s: claim %s has %d users, want %d", when, key, have, users[key])
		}
		var names []string
		for _, v := range h.store.PreBound(key) {
			names = append(names, v.Name)
		}
		if !slices.Equal(names, boundTo[key]) {
			h.t.Errorf("%s: the volumes %v name claim %s, want %v", when, names, key, boundTo[key])
		}
		driver, name, migrated := h.store.Attachable(key)
		if wantDriver, wantName, want := h.unique(key); driver != wantDriver || driver != "" && (name != wantName || migrated != want) {
			h.t.Errorf("%s: claim %s stands for %s/%s (%t), want %s/%s (%t)", when, key, driver, name, migrated, wantDriver, wantName, want)
		}
		if have := h.store.Claim(key); (have == nil) != (h.claims[key] == nil) || have != nil && have.Object != h.claims[key] {
			h.t.Errorf("%s: claim %s exists: %t", when, key, have != nil)
		}
	}
}

// checkWide checks that the wide and the per-node supply together are complete.
func (h *history) checkWide(when string) {
	for _, class := range []string{"", "a", "b", "c"} {
		wide := map[string]bool{}
		for _, g := range h.store.WideGroups(class) {
			g.AtLeast(0, func(v *model.Volume) bool { wide[v.Name] = true; return true })
		}
		nodes := map[string]int{}
		for _, n := range h.slots {
			if n != nil && n.exists {
				for _, name := range h.free(class, n.labels) {
					nodes[name]++
				}
			}
		}
		for name, v := range h.volumes {
			if n := nodes[name]; wide[name] && n > 0 && n <= maxNarrow && v.Spec.NodeAffinity != nil || !wide[name] && n > 2*maxNarrow {
				h.t.Errorf("%s: volume %s of %d nodes is wide: %t", when, name, n, wide[name])
			}
		}
		listed := map[string]bool{}
		h.store.WideCapacities(class, func(c *model.StorageCapacity) bool { listed[c.Object.Name] = true; return true })
		for name, c := range h.capacities {
			nodes := 0
			if c.StorageClassName == class {
				nodes = h.nodesOf(func(of map[string]string) bool { return admits(c, of) })
			}
			if listed[name] && nodes <= maxNarrow || !listed[name] && nodes > 2*maxNarrow {
				h.t.Errorf("%s: capacity %s of %d nodes is wide: %t", when, name, nodes, listed[name])
			}
		}
	}
}

func (h *history) nodesOf(selected func(map[string]string) bool) int {
	nodes := 0
	for _, n := range h.slots {
		if n != nil && n.exists && selected(n.labels) {
			nodes++
		}
	}
	return nodes
}

// checkDrafts compares usages after adding and removing pods with the store's after the
// same changes.
func (h *history) checkDrafts(when string) {
	slot := h.anySlot()
	if slot < 0 {
		return
	}
	n := h.slots[slot]
	pods, u := slices.Clone(n.pods), h.store.At(slot).Usage()
	changed := u // like u, by changes in place
	for range 4 {
		former, before := u, h.reported(u)
		if len(pods) > 0 && h.oneIn(2) {
			i := h.some(len(pods))
			u = u.With(h.store, model.NewPod(pods[i].Object), -1)
			changed.Change(h.store, model.NewPod(pods[i].Object), -1)
			pods = slices.Delete(pods, i, i+1)
		} else {
			p := h.randomPod(true)
			u = u.With(h.store, p, +1)
			changed.Change(h.store, p, +1)
			pods = append(pods, p)
		}
		if have, want := h.reported(u), h.inUse(slot, pods); have != want {
			h.t.Errorf("%s: in a draft of %s:\n%s, want\n%s", when, n.name, have, want)
		}
		if h.reported(changed) != h.reported(u) || h.reported(changed.Clone()) != h.reported(u) {
			h.t.Errorf("%s: a draft of %s that is changed in place says %s", when, n.name, h.reported(changed))
		}
		if h.reported(former) != before {
			h.t.Errorf("%s: a draft changes the usage from which it was made", when)
		}
	}
}

func (h *history) anySlot() int32 {
	for range 20 {
		if slot := h.some(len(h.slots)); h.slots[slot] != nil {
			return int32(slot)
		}
	}
	return -1
}

// change makes a random change. It returns the name of the node if the change is to a
// node itself.
func (h *history) change() (moved string) {
	key := model.ClaimKey{Namespace: "default", Name: h.name("c", 12)}
	if h.oneIn(2) { // until reaches are narrow, or wide again
		return h.comeOrLeave()
	}
	switch h.some(20) {
	case 0, 1:
		h.claim(key)
	case 2:
		remove(h.world, h.claims, key, key.Ref())
	case 3, 4, 5:
		h.volume()
	case 6:
		h.removeVolume(h.name("v", 40))
	case 7:
		name := h.oneOf("a", "b", "c")
		if h.oneIn(3) {
			remove(h.world, h.classes, name, model.Ref{Kind: model.StorageClassKind, Name: name})
		} else {
			h.setClass(build.StorageClass(name, "provisioner="+h.oneOf("d", "e", "", "kubernetes.io/aws-ebs", "kubernetes.io/azure-file")))
		}
	case 8, 9:
		name := h.name("n", 80)
		if h.oneIn(3) {
			remove(h.world, h.csiNodes, name, model.Ref{Kind: model.CSINodeKind, Name: name})
		} else {
			h.setCSINode(build.CSINode(name, h.oneOf("d=2", "d=3", "e=")))
		}
	case 10:
		name := h.name("at", 10)
		if h.oneIn(3) {
			remove(h.world, h.attachments, name, model.Ref{Kind: model.VolumeAttachmentKind, Name: name})
		} else {
			h.setAttachment(build.VolumeAttachment(name, h.oneOf("", "attacher=d ", "attacher=x ")+h.oneOf("", "node="+h.name("n", 80)+" ", "node="+h.name("n", 4)+" ")+
				h.oneOf("", "volume="+h.name("v", 8))))
		}
	case 11, 12:
		name := h.name("cap", 20)
		if h.oneIn(3) {
			ref := model.Ref{Kind: model.CSIStorageCapacityKind, Namespace: "default", Name: name}
			remove(h.world, h.capacities, name, ref)
		} else {
			h.setCapacity(build.CSIStorageCapacity(name, "class="+h.oneOf("a", "b")+h.oneOf("", " capacity=4Gi", " capacity=2Gi", " maximum=3Gi"), h.topology()))
		}
	case 13, 14:
		return h.node()
	case 15:
		return h.comeOrLeave()
	case 16, 17:
		slot := h.seat2()
		h.place(slot, h.randomPod(false))
	case 18:
		if slot := h.anySlot(); slot >= 0 && len(h.slots[slot].pods) > 0 {
			h.displace(slot, h.some(len(h.slots[slot].pods)))
		}
	case 19:
		return h.other()
	}
	return ""
}

func (h *history) comeOrLeave() (moved string) {
	if !h.leaving {
		return h.node()
	}
	slot := h.anySlot()
	if slot < 0 || !h.slots[slot].exists {
		return ""
	}
	moved = h.slots[slot].name
	h.removeNode(slot)
	return moved
}

// other makes a rarer change: holds, a driver, slots, nominations.
func (h *history) other() (moved string) {
	volume, holder := h.name("v", 40), model.PodKey{Namespace: "default", Name: h.name("holder", 3)}
	switch h.some(8) {
	case 5, 6:
		p := h.randomPod(false)
		h.nominated = append(h.nominated, p)
		h.store.Nominate(p, +1)
	case 7:
		if len(h.nominated) > 0 {
			i := h.some(len(h.nominated))
			h.store.Nominate(model.NewPod(h.nominated[i].Object), -1)
			h.nominated = slices.Delete(h.nominated, i, i+1)
		}
	case 0, 1:
		h.hold(volume, holder)
	case 2:
		h.release(volume, holder)
	case 3:
		if h.oneIn(2) {
			h.store.Set(model.NewCSIDriver(build.CSIDriver("d", "")))
		} else {
			h.store.Remove(model.Ref{Kind: model.CSIDriverKind, Name: "d"})
		}
	case 4:
		free := slices.Index(h.slots, nil)
		if last := len(h.slots) - 1; free >= 0 && h.slots[last] != nil {
			moved = h.slots[last].name
			h.move(int32(last), int32(free))
		}
		h.cut()
	}
	return moved
}

// seat2 returns the slot of a node with pods, or of another, which may not exist.
func (h *history) seat2() int32 {
	name := h.oneOf(h.name("n", 4), h.name("n", 80))
	for slot, n := range h.slots {
		if n != nil && n.name == name {
			return int32(slot)
		}
	}
	return h.seat(name)
}

func (h *history) claim(key model.ClaimKey) {
	text := "storage=1Gi" + h.oneOf("", " class=a", " class=b", " class=c") + h.oneOf("", " bound="+h.name("v", 8), " volume="+h.name("v", 40)) +
		h.oneOf("", " owner="+h.name("p", 6))
	h.setClaim(build.PersistentVolumeClaim(key.Name, text))
}

func (h *history) volume() {
	if v := h.volumes[h.oneOf(h.name("v", 40), h.name("v", 8))]; v != nil && h.oneIn(2) {
		h.setVolume(h.changed(v.DeepCopy()), false)
		return
	}
	text := "storage=" + h.oneOf("1Gi", "2Gi", "3Gi", "5Gi") + " class=" + h.oneOf("", "a", "b") + h.oneOf("", "", "", " modes=RWO,RWX", " mode=Block", " label=x=1", " attributes=gold") +
		h.oneOf("", "", "", " claim=default/"+h.name("c", 12)) + h.oneOf("", "", "", " phase=Bound", " deleting") +
		h.oneOf("", " csi=d/"+h.name("h", 5), " csi=e/"+h.name("h", 5), " ebs=vol-3", " nfs=")
	var options []build.VolumeOption
	if !h.oneIn(4) {
		terms := []string{h.term()}
		if h.oneIn(3) {
			terms = append(terms, h.term())
		}
		options = append(options, build.VolumeAffinity(terms...))
	}
	h.setVolume(build.PersistentVolume(h.name("v", 40), text, options...), h.oneIn(5))
}

// changed changes one field of a volume.
func (h *history) changed(v *v1.PersistentVolume) *v1.PersistentVolume {
	other := build.PersistentVolume("", "storage="+h.oneOf("1Gi", "2Gi", "3Gi", "5Gi"), build.VolumeAffinity(h.term()))
	switch h.some(8) {
	case 0, 1:
		v.Spec.Capacity = other.Spec.Capacity
	case 2:
		v.Spec.NodeAffinity = other.Spec.NodeAffinity
	case 3:
		v.Labels = map[string]string{"x": h.name("", 2)}
	case 4:
		v.DeletionTimestamp = &metav1.Time{}
	case 5, 6:
		v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: h.oneOf("d", "e"), VolumeHandle: h.name("h", 5)}}
	case 7:
		v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-3"}}
	}
	return v
}

func (h *history) term() string {
	return h.oneOf("zone In z1", "zone In z1,z2", "zone In z2,z2,z3", "host In "+h.name("n", 80), "host In "+h.name("n", 80)+"; zone In z1",
		"zone In z1; host In "+h.name("n", 80), "zone NotIn z1", "disk Exists", "zone In z3; disk DoesNotExist", "", "bad/bad/bad In x", "host In n1,n2,n3; disk In ssd")
}

func (h *history) topology() string {
	return h.oneOf("absent", "zone=z1", "zone=z2", "host="+h.name("n", 80), "zone=z1 host="+h.name("n", 80), "zone In z1,z3", "disk Exists", "zone NotIn z1", "everything")
}

// node adds a node, or changes its labels.
func (h *history) node() string {
	name := h.name("n", 80)
	of := map[string]string{"host": name, "zone": h.oneOf("z1", "z1", "z1", "z2", "z3"), "other": h.name("", 3)}
	if h.oneIn(10) {
		delete(of, "zone")
	}
	if h.oneIn(4) {
		of["disk"] = h.oneOf("ssd", "hdd")
	}
	for slot, n := range h.slots {
		if n != nil && n.name == name {
			n.exists, n.labels = true, of
			h.store.SetNode(int32(slot), true, of)
			return name
		}
	}
	h.setNode(name, of)
	return name
}

// randomPod makes a pod, and its claim unless the pod is for a draft.
func (h *history) randomPod(draft bool) *model.Pod {
	h.pods++
	var options []build.PodOption
	for range 1 + h.some(2) {
		switch h.some(8) {
		case 0, 1, 2:
			options = append(options, build.Claims(h.name("c", 12)))
		case 3:
			options = append(options, build.Claims(h.name("c", 12)+" "+h.name("c", 3)))
		case 4:
			options = append(options, build.Ephemeral("eph"))
		case 5:
			options = append(options, build.Disks("ebs="+h.oneOf("vol-1", "vol-2", "vol-3", "aws://zone/bad")))
		case 6:
			options = append(options, build.Disks("iscsi="+h.oneOf("iqn-1", "iqn-2")))
		case 7:
			options = append(options, build.ReadOnlyDisks("iscsi="+h.oneOf("iqn-1", "iqn-2")))
		}
	}
	p := pod(fmt.Sprint("pod", h.pods), options...).Object
	if h.oneIn(3) { // a pod whose ephemeral claim exists
		p.Name = h.name("p", 6)
		p.Spec.Volumes = []v1.Volume{}
		build.Ephemeral("eph")(p)
		key := model.ClaimKey{Namespace: "default", Name: p.Name + "-eph"}
		if !draft && (h.claims[key] == nil || h.oneIn(3)) {
			owner := h.oneOf(string(p.UID), "other")
			h.setClaim(build.PersistentVolumeClaim(key.Name, h.oneOf("class=a", "bound=v1")+" owner="+owner))
		} else if h.claims[key] != nil {
			p.UID = metav1.GetControllerOf(h.claims[key]).UID
		}
	}
	return model.NewPod(p)
}
