// Package volumerestrictions keeps a pod off nodes where another pod uses its inline
// disks. While another pod uses a ReadWriteOncePod claim of the pod, it rejects all
// nodes.
//
// It takes a pod's inline disks and claims, the users of these claims, and the disks in
// use on a node. It returns a verdict, or the rejection of a pod whose claim is missing.
// It owns nothing. It never compares the volumes behind claims, and it ignores ephemeral
// volumes.
package volumerestrictions

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "VolumeRestrictions"

// Both codes are resolvable: preemption may evict the pod with the disk or the claim.
const (
	diskInUse reason.Code = 1 + iota
	claimInUse
)

// Plugin rejects nodes by disks and claims in use.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "VolumeRestrictions".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
		Filter: &plugin.Filter{
			Reads:  plugin.Reads{Nodes: model.Volumes, Objects: []model.Kind{model.PersistentVolumeClaimKind}},
			NeedIn: p.FilterNeedIn,
		},
	})
}

// FilterNeedIn returns the pod's inline disks and its ReadWriteOncePod claims, with the
// number of claims in use. It is nil if the pod has no such disk and no claim is in use.
// A missing claim rejects the pod.
func (*Plugin) FilterNeedIn(v state.View, pod *model.Pod) (plugin.StateNeed, error) {
	if pod.Volumes == nil {
		return plugin.StateNeed{}, nil
	}
	r := restrictions{disks: pod.Volumes.Disks}
	listed := map[string]bool{}
	for _, use := range pod.Volumes.Claims {
		if use.Ephemeral {
			continue
		}
		claim := v.Storage().Claim(use.Key)
		if claim == nil {
			return plugin.StateNeed{Rejection: fmt.Sprintf("persistentvolumeclaim %q not found", use.Key.Name)}, nil
		}
		if !claim.Exclusive || listed[use.Key.Name] {
			continue
		}
		listed[use.Key.Name] = true
		r.claims = append(r.claims, use.Key.Name)
		if users(v, use.Key) > 0 {
			r.conflicts++
		}
	}
	if len(r.disks) == 0 && r.conflicts == 0 {
		return plugin.StateNeed{}, nil
	}
	slices.Sort(r.claims)
	if len(r.claims) > 0 {
		r.leaveOut(v)
	}
	return plugin.StateNeed{Need: &r}, nil
}

// users returns how many pods of a view use a claim.
func users(v state.View, key model.ClaimKey) int {
	n := v.Storage().UsersOf(key)
	for _, slot := range v.Touched() {
		for pod, change := range v.Node(slot).Changes {
			if pod.Volumes.Names(key, false) {
				n += int(change)
			}
		}
	}
	return n
}

// restrictions is the need for exclusive disks and claims.
type restrictions struct {
	disks []model.Disk
	// compared is disks, compiled.
	compared model.Disks
	// claims are the names of the pod's ReadWriteOncePod claims, sorted. conflicts is the
	// number of them that are in use.
	claims    []string
	conflicts int
	// besides are changes of nodes that conflicts already includes. In the view of the
	// pod's turn, some nodes may have other pods than in the state.
	extras []extra
}

type extra struct {
	slot  int32
	times int
}

// leaveOut records the changes of nodes that the number of conflicts already includes.
func (r *restrictions) leaveOut(v state.View) {
	for _, slot := range v.Touched() {
		if n := r.changes(v.Node(slot)); n != 0 {
			r.extras = append(r.extras, extra{slot, n})
		}
	}
}

// changes returns the effect of a view's added and removed pods on the conflicts of a
// node. As in kube-scheduler, each volume counts and only claim names are compared. So
// pods of other namespaces also add and remove conflicts.
func (r *restrictions) changes(node state.Node) (sum int) {
	if len(r.claims) == 0 {
		return 0
	}
	for pod, n := range node.Changes {
		if pod.Volumes == nil {
			continue
		}
		for i := range pod.Volumes.Claims {
			if c := &pod.Volumes.Claims[i]; !c.Ephemeral && r.lists(c.Key.Name) {
				sum += int(n)
			}
		}
	}
	return sum
}

func (r *restrictions) lists(claim string) bool {
	_, listed := slices.BinarySearch(r.claims, claim)
	return listed
}

func (r *restrictions) AppendText(text []byte) []byte {
	text = strconv.AppendInt(text, int64(r.conflicts), 10)
	for _, name := range r.claims {
		text = model.AppendQuote(text, name)
	}
	for _, b := range r.extras {
		text = append(text, '@')
		text = strconv.AppendInt(text, int64(b.slot), 10)
		text = append(text, ' ')
		text = strconv.AppendInt(text, int64(b.times), 10)
	}
	return appendDisks(text, r.disks)
}

// appendDisks appends a canonical text of disks, independent of their order.
func appendDisks(text []byte, disks []model.Disk) []byte {
	texts := make([]string, len(disks))
	for i := range disks {
		texts[i] = string(appendDisk(nil, &disks[i]))
	}
	slices.Sort(texts)
	for _, disk := range slices.Compact(texts) {
		text = append(text, disk...)
	}
	return text
}

func appendDisk(text []byte, d *model.Disk) []byte {
	text = append(text, '#')
	text = strconv.AppendUint(text, uint64(d.Kind), 10)
	text = strconv.AppendBool(text, d.ReadOnly)
	text = model.AppendQuote(text, d.Name)
	text = model.AppendQuote(text, d.Pool)
	for _, monitor := range model.SortedCopy(d.Monitors) {
		text = model.AppendQuote(text, monitor)
	}
	return text
}

func (r *restrictions) Compile() *plugin.Verdicts {
	r.compared = model.NewDisks(r.disks)
	return &plugin.Verdicts{NodeVerdicts: r}
}

// Filter checks the disks first. In a dry run the number of conflicts may be negative.
func (r *restrictions) Filter(node state.Node) reason.Code {
	if len(r.disks) > 0 && node.Volumes().DiskConflicts(r.compared) {
		return diskInUse
	}
	conflicts := r.conflicts + r.changes(node)
	for i := range r.extras {
		if r.extras[i].slot == node.Slot() {
			conflicts -= r.extras[i].times
		}
	}
	if conflicts > 0 {
		return claimInUse
	}
	return reason.None
}

func (*restrictions) Reasons(code reason.Code) []string {
	if code == diskInUse {
		return []string{"node(s) had no available disk"}
	}
	return []string{"node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"}
}
