package storage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// world is API objects and pods on nodes, with a store of them. It recomputes the store's
// values from the objects, slowly.
type world struct {
	t           testing.TB
	store       *Store
	claims      map[model.ClaimKey]*v1.PersistentVolumeClaim
	volumes     map[string]*v1.PersistentVolume
	classes     map[string]*storagev1.StorageClass
	csiNodes    map[string]*storagev1.CSINode
	attachments map[string]*storagev1.VolumeAttachment
	capacities  map[string]*storagev1.CSIStorageCapacity
	slots       []*seated // nil if free
	holders     map[string]map[model.PodKey]bool
	nominated   []*model.Pod
	touched     map[int32]model.Aspect
	versions    int
}

// seated is a node on a slot.
type seated struct {
	name   string
	exists bool
	labels map[string]string
	pods   []*model.Pod
}

func newWorld(t testing.TB) *world {
	w := &world{
		t: t, claims: map[model.ClaimKey]*v1.PersistentVolumeClaim{}, volumes: map[string]*v1.PersistentVolume{},
		classes: map[string]*storagev1.StorageClass{}, csiNodes: map[string]*storagev1.CSINode{}, attachments: map[string]*storagev1.VolumeAttachment{},
		capacities: map[string]*storagev1.CSIStorageCapacity{}, holders: map[string]map[model.PodKey]bool{}, touched: map[int32]model.Aspect{},
	}
	w.store = New(func(slot int32, aspects model.Aspect) { w.touched[slot] |= aspects })
	return w
}

// version numbers the versions of all objects.
func (w *world) version(meta *metav1.ObjectMeta) {
	w.versions++
	meta.ResourceVersion = fmt.Sprint(w.versions)
}

func (w *world) setClaim(c *v1.PersistentVolumeClaim) {
	w.version(&c.ObjectMeta)
	w.claims[model.ClaimKey{Namespace: c.Namespace, Name: c.Name}] = c
	w.store.Set(model.NewClaim(c))
}

// setVolume stores a volume, as another version or listed again in the same version.
func (w *world) setVolume(v *v1.PersistentVolume, again bool) {
	if before := w.volumes[v.Name]; again && before != nil {
		v = before
	} else {
		w.version(&v.ObjectMeta)
		delete(w.holders, v.Name)
	}
	w.volumes[v.Name] = v
	w.store.Set(model.NewVolume(v))
}

func (w *world) removeVolume(name string) {
	delete(w.volumes, name)
	delete(w.holders, name)
	w.store.Remove(model.VolumeRef(name))
}

func (w *world) setClass(c *storagev1.StorageClass) {
	w.classes[c.Name] = c
	w.store.Set(model.NewStorageClass(c))
}

func (w *world) setCSINode(n *storagev1.CSINode) {
	w.csiNodes[n.Name] = n
	w.store.Set(model.NewCSINode(n))
}

func (w *world) setAttachment(a *storagev1.VolumeAttachment) {
	w.attachments[a.Name] = a
	w.store.Set(model.NewVolumeAttachment(a))
}

func (w *world) setCapacity(c *storagev1.CSIStorageCapacity) {
	w.capacities[c.Name] = c
	w.store.Set(model.NewStorageCapacity(c))
}

// remove removes an object of another kind than volumes.
func remove[K comparable, T any](w *world, from map[K]T, key K, ref model.Ref) {
	delete(from, key)
	w.store.Remove(ref)
}

// setNode makes a node exist with labels, on the lowest free slot if it has none yet.
func (w *world) setNode(name string, of map[string]string) int32 {
	slot := w.seat(name)
	w.slots[slot].exists, w.slots[slot].labels = true, of
	w.store.SetNode(slot, true, of)
	return slot
}

func (w *world) seat(name string) int32 {
	free := -1
	for slot, n := range w.slots {
		if n == nil && free < 0 {
			free = slot
		}
		if n != nil && n.name == name {
			return int32(slot)
		}
	}
	if free < 0 {
		free, w.slots = len(w.slots), append(w.slots, nil)
	}
	w.slots[free] = &seated{name: name}
	w.store.Seat(int32(free), name)
	return int32(free)
}

func (w *world) removeNode(slot int32) {
	w.slots[slot].exists, w.slots[slot].labels = false, nil
	w.store.SetNode(slot, false, nil)
	w.unseatIfEmpty(slot)
}

func (w *world) unseatIfEmpty(slot int32) {
	if n := w.slots[slot]; !n.exists && len(n.pods) == 0 {
		w.slots[slot] = nil
		w.store.Unseat(slot)
	}
}

func (w *world) place(slot int32, pod *model.Pod) {
	w.slots[slot].pods = append(w.slots[slot].pods, pod)
	w.store.Place(slot, pod)
}

// displace removes a pod in a later version.
func (w *world) displace(slot int32, i int) {
	n := w.slots[slot]
	pod := model.NewPod(n.pods[i].Object)
	n.pods = slices.Delete(n.pods, i, i+1)
	w.store.Displace(slot, pod)
	w.unseatIfEmpty(slot)
}

// move moves a node to a free slot.
func (w *world) move(from, to int32) {
	w.slots[to], w.slots[from] = w.slots[from], nil
	w.store.Move(from, to)
}

func (w *world) cut() {
	for len(w.slots) > 0 && w.slots[len(w.slots)-1] == nil {
		w.slots = w.slots[:len(w.slots)-1]
	}
	w.store.Cut(len(w.slots))
}

func (w *world) hold(volume string, pod model.PodKey) {
	if w.volumes[volume] != nil {
		if w.holders[volume] == nil {
			w.holders[volume] = map[model.PodKey]bool{}
		}
		w.holders[volume][pod] = true
	}
	w.store.Hold(model.VolumeRef(volume), pod)
}

func (w *world) release(volume string, pod model.PodKey) {
	delete(w.holders[volume], pod)
	w.store.Release(model.VolumeRef(volume), pod)
}

func (w *world) audit() {
	w.t.Helper()
	v := audit.Of("storage")
	w.store.Audit(v, w.seats(), w.nominated, func(ref model.Ref, pod model.PodKey) bool { return w.holders[ref.Name][pod] })
	if err := v.Err(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) seats() []Seat {
	seats := make([]Seat, len(w.slots))
	for slot, n := range w.slots {
		if n != nil {
			seats[slot] = Seat{n.name, n.exists, n.labels, n.pods}
		}
	}
	return seats
}

// unique returns the driver and the handle that a claim counts as. The driver is empty if
// the claim does not count.
func (w *world) unique(key model.ClaimKey) (driver, name string, migrated bool) {
	c := w.claims[key]
	if c == nil {
		return "", "", false
	}
	if pv := w.volumes[c.Spec.VolumeName]; pv != nil {
		switch {
		case pv.Spec.CSI != nil:
			return pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle, false
		case pv.Spec.AWSElasticBlockStore != nil:
			return "ebs.csi.aws.com", pv.Spec.AWSElasticBlockStore.VolumeID, true
		}
		return "", "", false
	}
	class := ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	k := w.classes[class]
	if k == nil {
		return "", "", false
	}
	handle := unboundPrefix + key.String()
	switch k.Provisioner {
	case "kubernetes.io/aws-ebs":
		return "ebs.csi.aws.com", handle, true
	case "kubernetes.io/azure-file", "":
		return "", "", false
	}
	return k.Provisioner, handle, false
}

// usedAnywhere returns the attached volumes and the volumes that placed or nominated pods
// use, whether or not they count on the node.
func (w *world) usedAnywhere() []string {
	all := slices.Clone(w.nominated)
	for _, n := range w.slots {
		if n != nil {
			all = append(all, n.pods...)
		}
	}
	used := map[string]bool{}
	for _, p := range all {
		for _, use := range p.Volumes.Claims {
			if driver, name, _ := w.unique(use.Key); driver != "" {
				used[driver+"/"+name] = true
			}
		}
		for _, v := range p.Object.Spec.Volumes {
			if v.AWSElasticBlockStore != nil && !strings.HasPrefix(v.AWSElasticBlockStore.VolumeID, "aws:") {
				used["ebs.csi.aws.com/"+v.AWSElasticBlockStore.VolumeID] = true
			}
		}
	}
	for _, a := range w.attachments {
		if pv := w.volumes[ptrOr(a.Spec.Source.PersistentVolumeName)]; a.Spec.NodeName != "" && a.Spec.Attacher != "" && pv != nil && pv.Spec.CSI != nil {
			used[a.Spec.Attacher+"/"+pv.Spec.CSI.VolumeHandle] = true
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// inUse returns a text about the volumes on a slot that these pods use or that are
// attached to it. It also returns these volumes by driver/name.
func (w *world) inUse(slot int32, pods []*model.Pod) string {
	n := w.slots[slot]
	csi := w.csiNodes[n.name] != nil
	used, all := map[string]bool{}, map[string]string{}
	add := func(driver, name string, migrated bool) {
		if driver != "" && (!migrated || csi) {
			used[driver+"/"+name], all[driver+"/"+name] = true, driver
		}
	}
	var disks, errs []string
	for _, pod := range pods {
		for _, v := range pod.Object.Spec.Volumes {
			switch {
			case v.PersistentVolumeClaim != nil:
				add(w.unique(model.ClaimKey{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}))
			case v.Ephemeral != nil:
				key := model.ClaimKey{Namespace: pod.Namespace, Name: pod.Name + "-" + v.Name}
				add(w.unique(key))
				if c := w.claims[key]; c != nil && !metav1.IsControlledBy(c, pod.Object) {
					errs = append(errs, fmt.Sprintf("%s PVC %s was not created for pod %s (pod is not owner)", pod, key, pod))
				}
			case v.AWSElasticBlockStore != nil:
				id := v.AWSElasticBlockStore.VolumeID
				disks = append(disks, id)
				if !strings.HasPrefix(id, "aws:") {
					add("ebs.csi.aws.com", id, true)
				} else if csi {
					inline := model.NewPod(pod.Object).Volumes.Inline
					bad := slices.IndexFunc(inline, func(i model.InlineVolume) bool { return i.Err != nil })
					errs = append(errs, pod.String()+" "+inline[bad].Err.Error())
				}
			case v.ISCSI != nil:
				disks = append(disks, fmt.Sprint(v.ISCSI.IQN, v.ISCSI.ReadOnly))
			}
		}
	}
	for _, a := range w.attachments {
		if pv := w.volumes[ptrOr(a.Spec.Source.PersistentVolumeName)]; a.Spec.NodeName == n.name && a.Spec.Attacher != "" && pv != nil && pv.Spec.CSI != nil {
			name := a.Spec.Attacher + "/" + pv.Spec.CSI.VolumeHandle
			used[name], all[name] = true, a.Spec.Attacher
		}
	}
	counts := map[string]int{}
	for _, driver := range all {
		counts[driver]++
	}
	before := slices.Clone(disks)
	// Beside a writer, the read-only flag of others does not show.
	disks = slices.DeleteFunc(disks, func(d string) bool {
		name, readOnly := strings.CutSuffix(d, "true")
		return readOnly && slices.Contains(before, name+"false")
	})
	slices.Sort(disks)
	err := ""
	if len(errs) > 0 {
		_, err, _ = strings.Cut(slices.Min(errs), " ")
	}
	return fmt.Sprintf("CSINode %t counts %v used %v disks %v err %s", csi, counts, slices.Sorted(maps.Keys(used)), slices.Compact(disks), err)
}

func ptrOr(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// drivers and handles are all values that can be in use in a world.
var drivers = []string{"d", "e", "ebs.csi.aws.com", "x"}

// usesOf returns the volumes in use among all possible ones.
func (w *world) usesOf(isUsed func(driver, name string) bool) []string {
	handles := []string{"vol-1", "vol-2", "vol-3"}
	for _, v := range w.volumes {
		if v.Spec.CSI != nil {
			handles = append(handles, v.Spec.CSI.VolumeHandle)
		}
	}
	for key := range w.claims {
		handles = append(handles, unboundPrefix+key.String())
	}
	used := map[string]bool{}
	for _, driver := range drivers {
		for _, name := range handles {
			if isUsed(driver, name) {
				used[driver+"/"+name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(used))
}

// reported returns the usage that the store reports, in the format of inUse.
func (w *world) reported(u Usage) string {
	counts := map[string]int{}
	for _, driver := range drivers {
		if n := u.Count(driver); n != 0 {
			counts[driver] = n
		}
	}
	used := w.usesOf(u.Has)
	var disks []string
	for _, id := range []string{"aws://zone/bad", "iqn-1", "iqn-2", "vol-1", "vol-2", "vol-3"} {
		kind := model.AWSDisk
		if strings.HasPrefix(id, "iqn") {
			kind = model.ISCSIDisk
		}
		readOnly := u.DiskConflicts(model.NewDisks([]model.Disk{{Kind: kind, Name: id, ReadOnly: true}}))
		switch written := u.DiskConflicts(model.NewDisks([]model.Disk{{Kind: kind, Name: id}})); {
		case kind == model.AWSDisk && written:
			disks = append(disks, id)
		// Some user writes; the read-only flag of others does not show.
		case kind == model.ISCSIDisk && readOnly:
			disks = append(disks, id+"false")
		case kind == model.ISCSIDisk && written:
			disks = append(disks, id+"true")
		}
	}
	err := ""
	if e := u.Err(); e != nil {
		err = e.Error()
	}
	return fmt.Sprintf("CSINode %t counts %v used %v disks %v err %s", u.CSINode() != nil, counts, used, disks, err)
}

// free returns the names of the free volumes of a class that can be used on a node with
// these labels, by size and name.
func (w *world) free(class string, of map[string]string) []string {
	var free []*v1.PersistentVolume
	for _, v := range w.volumes {
		if v.Spec.StorageClassName == class && v.Status.Phase == v1.VolumeAvailable && v.Spec.ClaimRef == nil && v.DeletionTimestamp == nil &&
			len(w.holders[v.Name]) == 0 && fits(v, of) {
			free = append(free, v)
		}
	}
	slices.SortFunc(free, func(a, b *v1.PersistentVolume) int {
		return cmp.Or(a.Spec.Capacity.Storage().Cmp(*b.Spec.Capacity.Storage()), strings.Compare(a.Name, b.Name))
	})
	names := make([]string, len(free))
	for i, v := range free {
		names[i] = v.Name
	}
	return names
}

func fits(v *v1.PersistentVolume, of map[string]string) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return true
	}
	matches, _ := nodeaffinity.NewLazyErrorNodeSelector(v.Spec.NodeAffinity.Required).Match(&v1.Node{ObjectMeta: metav1.ObjectMeta{Labels: of}})
	return matches
}

// saidFree is the store's counterpart of free, for volumes of at least a size.
func (w *world) saidFree(slot int32, class string, size int64) []string {
	w.t.Helper()
	var free []*model.Volume
	w.store.GroupsAt(slot, class, func(g *Group) bool {
		var before *model.Volume
		g.AtLeast(size, func(v *model.Volume) bool {
			if before != nil && cmp.Or(cmp.Compare(before.Capacity, v.Capacity), strings.Compare(before.Name, v.Name)) >= 0 {
				w.t.Errorf("a group has %s before %s", before.Name, v.Name)
			}
			if groupText(v) != g.Text || groupText(g.Sample) != g.Text || g.Reaches() != v.Affinity {
				w.t.Errorf("volume %s is in a group of others", v.Name)
			}
			before, free = v, append(free, v)
			return true
		})
		return true
	})
	slices.SortFunc(free, func(a, b *model.Volume) int {
		return cmp.Or(cmp.Compare(a.Capacity, b.Capacity), strings.Compare(a.Name, b.Name))
	})
	names := make([]string, len(free))
	for i, v := range free {
		names[i] = v.Name
	}
	return names
}

// room returns the name of the first sufficient capacity of a class for a node with these
// labels.
func (w *world) room(class string, of map[string]string, size int64) string {
	first := ""
	for _, c := range w.capacities {
		limit := c.Capacity
		if c.MaximumVolumeSize != nil {
			limit = c.MaximumVolumeSize
		}
		if c.StorageClassName == class && limit != nil && limit.Value() >= size && (first == "" || c.Name < first) && admits(c, of) {
			first = c.Name
		}
	}
	return first
}

func admits(c *storagev1.CSIStorageCapacity, of map[string]string) bool {
	if c.NodeTopology == nil {
		return false
	}
	selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology)
	return err == nil && selector.Matches(labels.Set(of))
}

// supply is a text of the supply in narrow reaches, which can change on a node without a
// change of the node.
func (w *world) supply(slot int32) string {
	var texts []string
	for _, class := range []string{"", "a", "b", "c"} {
		w.store.GroupsAt(slot, class, func(g *Group) bool {
			if !g.IsWide() {
				g.AtLeast(0, func(v *model.Volume) bool { texts = append(texts, fmt.Sprint(v.Name, v.Capacity, g.Text)); return true })
			}
			return true
		})
	}
	for _, c := range w.store.capacities {
		if c.reach != nil && c.reach.narrow && slices.Contains(c.reach.nodes, w.store.At(slot)) {
			texts = append(texts, fmt.Sprint(c.ref, c.Class, c.Limit, c.Usable, c.Capacity))
		}
	}
	slices.Sort(texts)
	return strings.Join(texts, "\n")
}

func pod(name string, options ...build.PodOption) *model.Pod {
	p := build.Pod(append([]build.PodOption{build.Named(name), build.InNamespace("default")}, options...)...)
	return model.NewPod(p)
}
