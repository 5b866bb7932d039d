// Package volumezone keeps a pod off nodes outside the zones and regions that its volumes
// are labelled with.
//
// It takes the claims that a pod names, their volumes and classes, and the labels of a
// node. It returns a verdict, or the rejection of a pod whose volumes are unknown. It
// owns nothing. It never reads the node affinity of a volume or the claims of ephemeral
// volumes.
package volumezone

import (
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "VolumeZone"

const elsewhere = reason.Unresolvable | 1

// Plugin compares the zones of volumes and nodes.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "VolumeZone".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
		Filter: &plugin.Filter{
			Reads: plugin.Reads{
				Nodes: model.Labels,
				// the kinds that identify a pod's volumes
				Objects: []model.Kind{model.PersistentVolumeKind, model.PersistentVolumeClaimKind, model.StorageClassKind},
			},
			NeedIn: p.FilterNeedIn,
		},
	})
}

// FilterNeedIn returns the zones and regions of the pod's volumes, or nil without any. A
// WaitForFirstConsumer claim without a volume has no zone yet. Any other claim without a
// volume rejects the pod.
func (*Plugin) FilterNeedIn(v state.View, pod *model.Pod) (plugin.StateNeed, error) {
	if pod.Volumes == nil {
		return plugin.StateNeed{}, nil
	}
	var found zones
	for _, claim := range pod.Volumes.Claims {
		if claim.Ephemeral {
			continue
		}
		volume, rejection := volumeOf(v.Storage(), claim.Key)
		if rejection != "" {
			return plugin.StateNeed{Rejection: rejection}, nil
		}
		if volume != nil && !volume.Zones.IsZero() && !slices.Contains(found, volume.Zones) {
			found = append(found, volume.Zones)
		}
	}
	if found == nil {
		return plugin.StateNeed{}, nil
	}
	return plugin.StateNeed{Need: found}, nil
}

// volumeOf returns the volume of a claim, or nil if it is bound only when the pod is
// placed. rejection is set if the volume must be known and is not.
func volumeOf(s *storage.Store, key model.ClaimKey) (volume *model.Volume, rejection string) {
	if key.Name == "" {
		return nil, "PersistentVolumeClaim had no name"
	}
	claim := s.Claim(key)
	if claim == nil {
		return nil, fmt.Sprintf("persistentvolumeclaim %q not found", key.Name)
	}
	if name := claim.Object.Spec.VolumeName; name != "" {
		if volume = s.Volume(name); volume == nil {
			return nil, fmt.Sprintf("persistentvolume %q not found", name)
		}
		return volume, ""
	}
	if claim.Class == "" {
		return nil, "PersistentVolumeClaim had no pv name and storageClass name"
	}
	switch class := s.Class(claim.Class); {
	case class == nil:
		return nil, fmt.Sprintf("storageclass.storage.k8s.io %q not found", claim.Class)
	case class.Object.VolumeBindingMode == nil:
		return nil, fmt.Sprintf("VolumeBindingMode not set for StorageClass %q", class.Name)
	case class.Waits():
		return nil, ""
	}
	return nil, "PersistentVolume had no name"
}

// zones are the texts of the zones of volumes, each once.
type zones []model.Need

// AppendText appends all zones and regions, sorted. Their distribution over the volumes
// makes no difference.
func (z zones) AppendText(text []byte) []byte {
	return append(text, strings.Join(z.lines(), "")...)
}

func (z zones) lines() []string {
	var lines []string
	for _, of := range z {
		lines = slices.AppendSeq(lines, strings.Lines(of.String()))
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func (z zones) Compile() *plugin.Verdicts {
	return &plugin.Verdicts{NodeVerdicts: &filter{model.ZonesOf(model.NeedOf(string(z.AppendText(nil))))}}
}

type filter struct{ zones []model.Zone }

// Filter returns elsewhere for a node outside any of the zones. A node without any zone
// or region label passes.
func (f *filter) Filter(node state.Node) reason.Code {
	labels := node.Object().Labels
	if !slices.ContainsFunc(model.ZoneLabels[:], func(label string) bool { _, has := labels[label]; return has }) {
		return reason.None
	}
	for i := range f.zones {
		if !f.zones[i].Matches(labels) {
			return elsewhere
		}
	}
	return reason.None
}

func (*filter) Reasons(reason.Code) []string { return []string{"node(s) had no available volume zone"} }

// EventsToRegister registers for classes, claims, volumes, and nodes with other zones.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{Resource: model.StorageClassEvent, Actions: model.Add | model.Update, Hint: waits},
		{Resource: model.NodeEvent, Actions: model.Add | model.UpdateNodeLabel},
		model.ClaimEvents(model.Add|model.Update, false),
		{Resource: model.PersistentVolumeEvent, Actions: model.Add | model.Update, Hint: hasOtherZones},
	}
}

// waits reports whether the class has WaitForFirstConsumer. It may be any class.
func waits(_ *model.Pod, e model.Event) bool { return e.Object.(*model.StorageClass).Waits() }

// hasOtherZones reports whether a volume is new or has other zones. It may be any volume.
func hasOtherZones(_ *model.Pod, e model.Event) bool {
	return e.OldObject == nil || e.OldObject.(*model.Volume).Zones != e.Object.(*model.Volume).Zones
}
