// Package nodevolumelimits keeps a pod off nodes that could not attach its volumes: a CSI driver is not installed there, or has no room for more.
//
// It takes the volumes that a pod's claims and inline volumes stand for, which of them other pods use, and on a node the volumes in use, the attached
// ones and what its CSINode says; it gives a verdict, or the error that volumes cannot be counted. It owns nothing: the store of volumes counts. It
// never waits for an attachment, and counts no volume that no CSI driver attaches.
package nodevolumelimits

import (
	"errors"
	"slices"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "NodeVolumeLimits"

// Plugin rejects nodes by the drivers of volumes and their limits.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "NodeVolumeLimits".
func (*Plugin) Name() string { return Name }

// Reads returns the kinds that lead from a pod to its volumes, and those that say what a node can attach and has attached.
func (*Plugin) Reads() []model.Kind {
	return []model.Kind{
		model.PersistentVolumeKind, model.PersistentVolumeClaimKind, model.StorageClassKind, model.CSINodeKind, model.CSIDriverKind,
		model.VolumeAttachmentKind,
	}
}

// FilterReads returns the volumes in use and attached, and the CSINode.
func (*Plugin) FilterReads() model.Aspect { return model.Volumes }

// FilterNeedIn is how many volumes of which drivers the pod brings along; it is nil if there are none. It names only volumes that other pods use or that
// are attached, so that pods with new claims of their own have needs in common.
func (*Plugin) FilterNeedIn(v state.View, pod *model.Pod) (plugin.FilterNeed, string, error) {
	if pod.Volumes == nil || len(pod.Volumes.Claims) == 0 && len(pod.Volumes.Inline) == 0 {
		return nil, "", nil
	}
	n := needOf(v, pod)
	if len(n.stops) == 0 && len(n.drivers) == 0 {
		return nil, "", nil
	}
	return n, "", nil
}

func (n *need) Compile() plugin.Verdicts { return (*filter)(n) }

// Codes that stand for one thing alone; the others count up from the last of a kind.
const (
	exceeded          = reason.Code(1)
	firstNotInstalled = reason.Code(2) // plus the driver's position
	claimMissing      = reason.Unresolvable | 1
	ownFailure        = reason.Failed | 1
	firstNodeFailure  = reason.Failed | 2 // plus the slot
)

type filter need

// Filter looks in kube-scheduler's order: at the pod's own volumes, at the drivers, and only where the node has a limit at what is in use there.
func (f *filter) Filter(node state.Node) reason.Code {
	usage := node.Volumes()
	csi := usage.CSINode()
	for i := range f.stops {
		if s := &f.stops[i]; csi != nil || !s.onlyMigrated {
			return s.code
		}
	}
	for i := range f.drivers {
		d := &f.drivers[i]
		if !d.mustBeInstalled || csi == nil && !d.anywhere {
			continue
		}
		if csi != nil {
			if _, listed := csi.Drivers[d.name]; listed {
				continue
			}
		}
		return firstNotInstalled + reason.Code(i)
	}
	if csi == nil || !csi.Limited || len(f.drivers) == 0 {
		return reason.None
	}
	if !usage.Countable() {
		return firstNodeFailure + reason.Code(node.Slot())
	}
	for i := range f.drivers {
		d := &f.drivers[i]
		limit, listed := csi.Drivers[d.name]
		if !listed || limit == model.Unlimited {
			continue
		}
		adds := d.unused
		for _, volume := range d.used {
			// A volume that is attached to the node takes no further place, also if no pod uses it:
			// such a pod comes back to a node at its limit. kube-scheduler counts the volume twice.
			if !usage.Has(d.name, volume) {
				adds++
			}
		}
		if adds > 0 && int64(usage.Count(d.name)+adds) > limit {
			return exceeded
		}
	}
	return reason.None
}

// fewSlots bounds the slots of a Variant by a share of all: with more, looking them up costs as much as asking about each node.
const fewSlots = 8

// Variant is the need of a pod with as many volumes that no other pod uses, except on the nodes where they are in use.
func (f *filter) Variant(s *state.State) (of plugin.FilterNeed, slots []int32, ok bool) {
	base := &need{stops: f.stops, drivers: slices.Clone(f.drivers), store: f.store}
	shares := false
	for i := range base.drivers {
		d := &base.drivers[i]
		for _, volume := range d.used {
			if slots, ok = f.store.UsedOn(d.name, volume, s.Slots()/fewSlots-len(slots), slots); !ok {
				return nil, nil, false
			}
		}
		shares = shares || len(d.used) > 0
		d.unused, d.used = d.unused+len(d.used), nil
	}
	return base, slots, shares
}

// Reasons returns the text of a code.
func (f *filter) Reasons(code reason.Code) []string {
	switch {
	case code == exceeded:
		return []string{"node(s) exceed max volume count"}
	case code.IsUnresolvable():
		return []string{f.stopWith(code)}
	}
	return []string{f.drivers[code-firstNotInstalled].name + " CSI driver is not installed on the node"}
}

func (f *filter) stopWith(code reason.Code) string {
	for i := range f.stops {
		if f.stops[i].code == code {
			return f.stops[i].text
		}
	}
	return ""
}

// Err returns the error of the pod's own volumes, or of the volumes of a node.
func (f *filter) Err(code reason.Code) error {
	if code < firstNodeFailure {
		return errors.New(f.stopWith(code))
	}
	if node := f.store.At(int32(code - firstNodeFailure)); node != nil {
		if err := node.Usage().Err(); err != nil {
			return err
		}
	}
	// In a dry run the node may have other pods.
	return errors.New("the volumes of a pod that is nominated to the node cannot be counted")
}
