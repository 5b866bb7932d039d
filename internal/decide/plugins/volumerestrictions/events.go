package volumerestrictions

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// EventsToRegister registers for pods that free a disk or a claim, for added and deleted
// nodes, and for the pod's claims. Nodes matter because a claim is only in use on an
// existing node.
func (*Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{
			Resource: model.AssignedPodEvent, Actions: model.Delete, Hint: frees,
			Alike: func(pod *model.Pod) model.Need { return plugin.NeedOf(wanted{pod}) }, Cause: cause, Touches: touches,
		},
		{Resource: model.NodeEvent, Actions: model.Add | model.Delete},
		model.ClaimEvents(model.Add|model.Update, false),
	}
}

// frees reports whether the deleted pod, on any node, used a disk that conflicts with the
// waiting pod's disks, or a claim of the waiting pod. Access modes do not matter. Disks
// of pods in other namespaces conflict too; kube-scheduler's hint ignores these.
func frees(waiting *model.Pod, e model.Event) bool {
	gone := e.OldPod
	if gone.Volumes == nil || waiting.Volumes == nil {
		return false
	}
	disks := model.NewDisks(waiting.Volumes.Disks)
	if slices.ContainsFunc(gone.Volumes.Disks, func(d model.Disk) bool { return disks.Conflict(&d) }) {
		return true
	}
	named := gone.Volumes.NamedSet()
	return slices.ContainsFunc(waiting.Volumes.Claims, func(c model.PodClaim) bool { return !c.Ephemeral && named[c.Key] })
}

// wanted is the part of a pod that frees depends on.
type wanted struct{ pod *model.Pod }

func (w wanted) AppendText(text []byte) []byte {
	text = model.AppendQuote(text, w.pod.Namespace)
	if w.pod.Volumes == nil {
		return text
	}
	text = model.AppendClaims(text, w.pod.Volumes.Named())
	return appendDisks(text, w.pod.Volumes.Disks)
}

// cause requires that a deleted pod used a disk or claim of the pod.
func cause(pod *model.Pod) model.Cause {
	return model.Cause{Wants: []model.Way{{appendKeys(nil, pod)}}}
}

func touches(e model.Event, to *model.Touch) { to.Has = appendKeys(to.Has, e.OldPod) }

// diskKeys are the kinds of keys of disks.
var diskKeys = [...]string{model.GCEDisk: "gce", model.AWSDisk: "aws", model.ISCSIDisk: "iscsi", model.RBDDisk: "rbd"}

// appendKeys appends the keys of a pod's claims and disks. Disks of one name may differ.
func appendKeys(to []model.Key, pod *model.Pod) []model.Key {
	if pod.Volumes == nil {
		return to
	}
	to = slices.Grow(model.ClaimKeys(to, pod.Volumes.Named()), len(pod.Volumes.Disks))
	for i := range pod.Volumes.Disks {
		d := &pod.Volumes.Disks[i]
		to = append(to, model.Key{Kind: diskKeys[d.Kind], Name: d.Name})
	}
	return to
}
