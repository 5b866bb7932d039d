package storage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/model"
)

// inUse are the volumes that pods on a node use or that are attached to it.
type inUse struct {
	// Invariant: refs has the references of pods and attachments to each volume that
	// counts; volumes counts the volumes of refs by driver. Neither has an entry of 0.
	refs    map[handle]references
	volumes map[string]int
	// Invariant: migrated counts the references of pods to in-tree volumes. They are in
	// refs only while the node has a CSINode.
	migrated map[handle]int
	// Invariant: disks are the inline disks of pods by identity, with the number of
	// volumes of each.
	disks map[string]diskCount
	// Invariant: ephemeral are the uses of ephemeral claims by pods.
	ephemeral []ephemeral
	// Invariant: untranslated are the inline volumes of pods that cannot be translated.
	untranslated []untranslated
}

type references struct{ pods, attachments int }

type diskCount struct {
	disk  model.Disk
	times int
}

// ephemeral is a pod's use of its ephemeral claim.
type ephemeral struct {
	claim model.ClaimKey
	pod   model.PodKey
	uid   types.UID
	// foreign means that the claim exists and the pod does not own it.
	foreign bool
}

type untranslated struct {
	pod model.PodKey
	uid types.UID
	err error
}

// Usage is the volumes in use on a node in a view.
type Usage struct {
	node *Node
	// own, if not nil, has the volumes in use in a view with other pods than the store.
	own *inUse
}

// Usage returns the volumes in use on the node.
func (n *Node) Usage() Usage { return Usage{node: n} }

// With returns the usage with a pod added (+1) or removed (-1). The receiver does not
// change.
func (u Usage) With(s *Store, pod *model.Pod, sign int) Usage {
	if pod.Volumes == nil {
		return u
	}
	u = u.Clone()
	u.Change(s, pod, sign)
	return u
}

// Change is With in place, for a usage that is not shared. It copies nothing, except for
// the first change of a node's own usage.
func (u *Usage) Change(s *Store, pod *model.Pod, sign int) {
	if pod.Volumes == nil {
		return
	}
	if u.own == nil {
		u.own = u.node.clone()
	}
	u.own.count(s, u.node.csi, pod, sign)
}

// Clone returns an equal usage that is not shared.
func (u Usage) Clone() Usage {
	if u.own != nil {
		u.own = u.own.clone()
	}
	return u
}

func (u Usage) in() *inUse {
	if u.own != nil {
		return u.own
	}
	return &u.node.inUse
}

// CSINode returns the node's CSINode, or nil.
func (u Usage) CSINode() *model.CSINode { return u.node.csi }

// Count returns the number of volumes of a driver that pods on the node use or that are
// attached to it.
func (u Usage) Count(driver string) int { return u.in().volumes[driver] }

// Has reports whether a pod on the node uses a volume, or the volume is attached to the
// node.
func (u Usage) Has(driver, name string) bool {
	_, has := u.in().refs[handle{driver, name}]
	return has
}

// DiskConflicts reports whether a pod on the node uses a disk that conflicts with any of
// the given disks.
func (u Usage) DiskConflicts(disks model.Disks) bool {
	for _, used := range u.in().disks {
		if disks.Conflict(&used.disk) {
			return true
		}
	}
	return false
}

// Countable reports whether the volumes on the node can be counted.
func (u Usage) Countable() bool {
	in := u.in()
	return (len(in.untranslated) == 0 || u.node.csi == nil) && !slices.ContainsFunc(in.ephemeral, func(e ephemeral) bool { return e.foreign })
}

// Err returns the reason why the volumes on the node cannot be counted, or nil. It is the
// error of the first pod by name.
func (u Usage) Err() error {
	in := u.in()
	if len(in.ephemeral) == 0 && len(in.untranslated) == 0 {
		return nil
	}
	var first failure
	for i := range in.ephemeral {
		if e := &in.ephemeral[i]; e.foreign {
			first.orEarlier(e.pod, NotOwner(e.claim, e.pod))
		}
	}
	if u.node.csi != nil {
		for i := range in.untranslated {
			first.orEarlier(in.untranslated[i].pod, in.untranslated[i].err)
		}
	}
	return first.err
}

// failure is the reason why the volumes of a pod cannot be counted.
type failure struct {
	pod model.PodKey
	err error
}

func (f *failure) orEarlier(pod model.PodKey, err error) {
	if f.err == nil || cmp.Or(strings.Compare(pod.Namespace, f.pod.Namespace), strings.Compare(pod.Name, f.pod.Name),
		strings.Compare(err.Error(), f.err.Error())) < 0 {
		f.pod, f.err = pod, err
	}
}

// NotOwner is the error of a pod that does not own its ephemeral claim.
func NotOwner(claim model.ClaimKey, pod model.PodKey) error {
	return fmt.Errorf("PVC %s was not created for pod %s (pod is not owner)", claim, pod)
}

func (in *inUse) clone() *inUse {
	c := *in
	c.refs, c.volumes, c.migrated = maps.Clone(in.refs), maps.Clone(in.volumes), maps.Clone(in.migrated)
	c.disks, c.ephemeral, c.untranslated = maps.Clone(in.disks), slices.Clone(in.ephemeral), slices.Clone(in.untranslated)
	return &c
}

// count adds the volumes of a pod (+1) or removes them (-1).
func (in *inUse) count(s *Store, csi *model.CSINode, pod *model.Pod, sign int) {
	leaving := map[ephemeral]int{} // stays on the stack while it is empty
	for _, use := range pod.Volumes.Claims {
		c := s.claims[use.Key]
		if c != nil {
			in.refer(s.standsFor(c), csi, sign)
		}
		if use.Ephemeral {
			e := ephemeral{use.Key, pod.Key(), pod.UID, isForeign(c, pod.UID)}
			if sign > 0 {
				in.ephemeral = append(in.ephemeral, e)
			} else {
				leaving[e]++
			}
		}
	}
	in.leave(leaving)
	for _, inline := range pod.Volumes.Inline {
		if inline.Err != nil {
			in.countUntranslated(untranslated{pod.Key(), pod.UID, inline.Err}, sign)
		} else {
			in.refer(identity{handle{inline.Driver, inline.Handle}, true}, csi, sign)
		}
	}
	for i := range pod.Volumes.Disks {
		in.countDisk(&pod.Volumes.Disks[i], sign)
	}
}

// leave removes the ephemeral uses of a removed pod in one pass, each as often as it is
// listed.
func (in *inUse) leave(uses map[ephemeral]int) {
	if len(uses) == 0 {
		return
	}
	in.ephemeral = slices.DeleteFunc(in.ephemeral, func(e ephemeral) bool {
		uses[e]--
		return uses[e] >= 0
	})
	if len(in.ephemeral) == 0 {
		in.ephemeral = nil
	}
}

// countUntranslated adds or removes an untranslated volume of a pod. It finds the volume
// by the pod's UID, since a later version of the pod may have other errors.
func (in *inUse) countUntranslated(one untranslated, sign int) {
	if sign > 0 {
		in.untranslated = append(in.untranslated, one)
	} else if i := slices.IndexFunc(in.untranslated, func(u untranslated) bool { return u.uid == one.uid }); i >= 0 {
		in.untranslated = slices.Delete(in.untranslated, i, i+1)
	}
}

func isForeign(c *claim, pod types.UID) bool { return c != nil && c.Claim != nil && c.Owner != pod }

// checkOwners updates which pods own their ephemeral claim c. It reports whether any has
// changed.
func (in *inUse) checkOwners(c *claim) (changed bool) {
	for i := range in.ephemeral {
		if e := &in.ephemeral[i]; e.claim == c.key && e.foreign != isForeign(c, e.uid) {
			e.foreign, changed = !e.foreign, true
		}
	}
	return changed
}

func (in *inUse) countDisk(disk *model.Disk, sign int) {
	if in.disks == nil {
		in.disks = map[string]diskCount{}
	}
	id := disk.Identity()
	times := in.disks[id].times + sign
	if times != 0 {
		in.disks[id] = diskCount{*disk, times}
	} else if delete(in.disks, id); len(in.disks) == 0 {
		in.disks = nil // a map keeps its memory
	}
}

// refer counts references of pods to a volume.
func (in *inUse) refer(is identity, csi *model.CSINode, times int) {
	if is.driver == "" {
		return
	}
	if is.migrated {
		if in.migrated == nil {
			in.migrated = map[handle]int{}
		}
		if in.migrated[is.handle] += times; in.migrated[is.handle] == 0 {
			if delete(in.migrated, is.handle); len(in.migrated) == 0 {
				in.migrated = nil
			}
		}
		if csi == nil {
			return
		}
	}
	in.use(is.handle, times)
}

func (in *inUse) use(h handle, times int)    { in.change(h, references{pods: times}) }
func (in *inUse) attach(h handle, times int) { in.change(h, references{attachments: times}) }

func (in *inUse) change(h handle, by references) {
	if in.refs == nil {
		in.refs, in.volumes = map[handle]references{}, map[string]int{}
	}
	before := in.refs[h]
	now := references{before.pods + by.pods, before.attachments + by.attachments}
	switch {
	case now == references{}:
		if delete(in.refs, h); len(in.refs) == 0 {
			in.refs, in.volumes = nil, nil // a map keeps its memory
			return
		}
	default:
		in.refs[h] = now
	}
	if (before == references{}) == (now == references{}) {
		return
	}
	if now != (references{}) {
		in.volumes[h.driver]++
	} else if in.volumes[h.driver]--; in.volumes[h.driver] == 0 {
		delete(in.volumes, h.driver)
	}
}
