package nodevolumelimits

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// wakes reports whether an event about objects wakes a pod that the plugin rejected: it
// finds the pod, and its hint is positive.
func wakes(t *testing.T, asked model.Need, events []model.Event) (woken bool) {
	t.Helper()
	for _, r := range New().EventsToRegister() {
		for _, e := range events {
			if r.Asked == nil || !r.Concerns(e) {
				continue
			}
			helps := r.Asked.Hint(asked, e)
			if finds := plugintest.Meets(&r, r.Asked.Cause(asked), e); helps != finds {
				t.Errorf("%s helps = %t, finds = %t", e.Label(), helps, finds)
			}
			woken = woken || helps
		}
	}
	return woken
}

// TestVolumesOnNodes changes the volumes on a node at its limits. A pod is woken if its
// driver has room again, or if one of its volumes came to the node.
func TestVolumesOnNodes(t *testing.T) {
	ebs := "ebs.csi.aws.com"
	gone := func(kind model.Kind, name string) model.Change {
		return model.Change{Kind: model.ObjectGone, Ref: model.Ref{Kind: kind, Name: name}}
	}
	set := func(object runtime.Object) model.Change {
		return kinds.Of(object.(kinds.Object)).Change(object.(kinds.Object))
	}
	attach := func(text string) model.Change { return set(attached("a", text)) }
	claim, disk := claims("c1"), disks("ebs=vol-1")
	// The limits are d=2 e=3 and one EBS disk. The node has v2 and v3 of d, one of them
	// by an attachment alone; an attachment of e; and an EBS disk.
	for _, row := range []struct {
		name    string
		waiting build.PodOption
		change  model.Change
		want    bool
	}{
		{"detached", claim, gone(model.VolumeAttachmentKind, "a3"), true},
		{"detached, a pod there uses it", claim, gone(model.VolumeAttachmentKind, "a2"), false},
		{"detached, another driver", claim, gone(model.VolumeAttachmentKind, "ae"), false},
		{"detached, a disk of the driver", disk, gone(model.VolumeAttachmentKind, "adisk"), true},
		{"detached, a disk of another driver", disk, gone(model.VolumeAttachmentKind, "a3"), false},
		{"detached, an ephemeral volume", ephemeral("scratch"), gone(model.VolumeAttachmentKind, "a3"), true},
		{"another status", claim, set(attached("a3", "attacher=d node=n1 volume=v3")), false},
		{"moved to another node", claim, set(attached("a3", "attacher=d node=n2 volume=v3")), true},
		{"attached", claim, attach("attacher=d node=n1 volume=v1"), true},
		{"attached to a node without a limit", claim, attach("attacher=d node=n2 volume=v1"), false},
		{"attached under another name", claim, attach("attacher=d node=n1 volume=copy"), true},
		{"attached by another driver", claim, attach("attacher=e node=n1 volume=copy"), false},
		{"another volume attached", claim, attach("attacher=d node=n1 volume=v4"), false},
		{"attached, a handle with a line break", claims("cline"), attach("attacher=d node=n1 volume=line"), true},
		{"an unknown volume attached", claim, attach("attacher=d node=n1 volume=gone"), false},
		{"an attached volume becomes the pod's", claim, set(pv("v3", "phase=Bound csi=d/v1")), true},
		{"an attached volume changes its driver, not its attacher", claim, set(pv("v3", "phase=Bound csi=e/v3")), false},
		{"an attached volume is gone", claim, gone(model.PersistentVolumeKind, "v3"), true},
		{"the claim of a pod there changes its volume", claim, set(pvc("c2", "bound=v1")), true},
		{"the claim of a pod there belongs to the pod again", claim, set(pvc("q1-data", "owner=q1")), true},
	} {
		objects := threeVolumes(csiNode("n1", "d=2 e=3 "+ebs+"=1"),
			pv("v4", "phase=Bound csi=d/v4"), pv("copy", "phase=Bound csi=d/v1"),
			attached("a2", "attacher=d node=n1 volume=v2"), attached("a3", "attacher=d node=n1 volume=v3"),
			pv("ve", "phase=Bound csi=e/ve"), attached("ae", "attacher=e node=n1 volume=ve"),
			pv("vdisk", "phase=Bound csi="+ebs+"/disk"), attached("adisk", "attacher="+ebs+" node=n1 volume=vdisk"),
			pv("line", "phase=Bound csi=d/x", func(v *v1.PersistentVolume) { v.Spec.CSI.VolumeHandle = "x\ny" }),
			pvc("cline", "bound=line"),
			pvc("p-scratch", "owner=p bound=v1"), pvc("q1-data", "owner=other"))
		s := cluster(append(n1("c2"), build.Pod(build.Named("q1"), build.NodeName("n1"), ephemeral("data"))), objects...)
		asked := New().AskedIn(s.View(), waiting(row.waiting))
		if got := wakes(t, asked, s.Apply([]model.Change{row.change}).Events); got != row.want {
			t.Errorf("%s: wakes = %t, want %t", row.name, got, row.want)
		}
	}
}

// TestVolumesOfNominatedPods removes the volume of a pod that is nominated to the node,
// where it takes a place in the turns of other pods.
func TestVolumesOfNominatedPods(t *testing.T) {
	nominated := build.Pod(build.Named("q1"), build.NominatedNodeName("n1"), claims("c2"))
	s := cluster(nil, append(threeVolumes(csiNode("n1", "d=1")), nominated)...)
	asked := New().AskedIn(s.View(), waiting(claims("c1")))
	gone := model.Ref{Kind: model.PersistentVolumeKind, Name: "v2"}
	if !wakes(t, asked, s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: gone}}).Events) {
		t.Error("a pod is not woken when the volume of a nominated pod is gone")
	}
}

// TestRoomBelowTheLimitOnly detaches volumes of a node that has more than it can attach.
func TestRoomBelowTheLimitOnly(t *testing.T) {
	s := cluster(nil, threeVolumes(csiNode("n1", "d=2"), pv("v4", "phase=Bound csi=d/v4"),
		attached("a2", "attacher=d node=n1 volume=v2"), attached("a3", "attacher=d node=n1 volume=v3"),
		attached("a4", "attacher=d node=n1 volume=v4"))...)
	asked := New().AskedIn(s.View(), waiting(claims("c1")))
	for i, want := range []bool{false, true, true} {
		gone := model.Ref{Kind: model.VolumeAttachmentKind, Name: []string{"a2", "a3", "a4"}[i]}
		if got := wakes(t, asked, s.Apply([]model.Change{{Kind: model.ObjectGone, Ref: gone}}).Events); got != want {
			t.Errorf("%s detached: wakes = %t, want %t", gone.Name, got, want)
		}
	}
}
