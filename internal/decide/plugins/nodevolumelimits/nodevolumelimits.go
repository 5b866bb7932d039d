// Package nodevolumelimits keeps a pod off nodes that cannot attach its volumes, because
// a CSI driver is not installed there or has reached its limit.
//
// It takes the volumes of a pod's claims and inline volumes, and which of them other pods
// use. For a node it takes the CSINode, the volumes in use and the attached volumes. It
// returns a verdict, or the error that volumes cannot be counted. It owns nothing: the
// volume store counts. It never waits for an attachment, and it ignores volumes that no
// CSI driver attaches.
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

// Plugin rejects nodes by CSI drivers and their limits.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "NodeVolumeLimits".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister(), Asked: p.AskedIn},
		Filter: &plugin.Filter{
			Reads: plugin.Reads{
				Nodes: model.Volumes, // the CSINode, and volumes in use or attached
				// the kinds that identify a pod's volumes, and those that describe a
				// node's limits and attachments
				Objects: []model.Kind{
					model.PersistentVolumeKind, model.PersistentVolumeClaimKind, model.StorageClassKind, model.CSINodeKind,
					model.CSIDriverKind, model.VolumeAttachmentKind,
				},
			},
			NeedIn: p.FilterNeedIn,
		},
	})
}

// FilterNeedIn returns how many volumes of each driver the pod needs, or nil if none.
// Only volumes that are attached or used by other pods are named. So pods with new claims
// of their own share needs.
func (*Plugin) FilterNeedIn(v state.View, pod *model.Pod) (plugin.StateNeed, error) {
	if pod.Volumes == nil || len(pod.Volumes.Claims) == 0 && len(pod.Volumes.Inline) == 0 {
		return plugin.StateNeed{}, nil
	}
	n := needOf(v, pod)
	if len(n.stops) == 0 && len(n.drivers) == 0 {
		return plugin.StateNeed{}, nil
	}
	return plugin.StateNeed{Need: n}, nil
}

func (n *need) Compile() *plugin.Verdicts {
	f := (*filter)(n)
	return &plugin.Verdicts{NodeVerdicts: f, Failures: f, Variant: f}
}

// exceeded, claimMissing and ownFailure are single codes. The others are the first of a
// range.
const (
	exceeded          = reason.Code(1)
	firstNotInstalled = reason.Code(2) // plus the driver's position
	claimMissing      = reason.Unresolvable | 1
	ownFailure        = reason.Failed | 1
	firstNodeFailure  = reason.Failed | 2 // plus the slot
)

type filter need

// Filter follows kube-scheduler's order: the pod's own volumes, then the drivers. It
// counts the volumes in use only where the node has a limit.
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
		limit, limited := csi.LimitOf(d.name)
		if !limited {
			continue
		}
		adds := d.unused
		for _, volume := range d.used {
			// A volume that is already attached to the node needs no further attachment,
			// even if no pod uses it. Otherwise such a pod could not return to a node at
			// its limit. kube-scheduler counts the volume twice.
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

// fewSlots limits the slots of a Variant to a share of all slots. Beyond it, the lookups
// cost as much as filtering each node.
const fewSlots = 8

// Variant returns the need of a pod with equally many volumes that no other pod uses. It
// holds except on the returned nodes, where the volumes are in use.
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

// Reasons returns the message of a code.
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

// Err returns the error of the pod's own volumes, or of a node's volumes.
func (f *filter) Err(_ state.View, _ *model.Pod, code reason.Code) error {
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
