package volumebinding

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// A claim whose selected node was deleted makes its pods unschedulable. Many provisioners
// then remove the annotation; a provisioner that ran on that node cannot. kube-scheduler
// leaves such a pod pending (kubernetes #100485), and cluster-autoscaler adds no node for
// it. Berth removes the annotation when it rejects such a pod, as provisioners do.
//
// The verdict stays kube-scheduler's until then. Selecting another node at once, with one
// write, was rejected: an unschedulable pod would keep the annotation, which hides the
// pod from cluster-autoscaler.
//
// The write fails closed. The API server first confirms that the node does not exist. The
// patch has the version of the claim, so a provisioner that has changed the claim wins.
// If a provisioner finishes the volume meanwhile, the claim is bound to it, and the pod
// is placed on a node that can use the volume.

// PostFilter releases the pod's claims whose selected node was deleted. It adds nothing
// to the rejection message.
func (*Plugin) PostFilter(c plugin.Cycle, pod *model.Pod) (plugin.PostFilterResult, error) {
	writes, err := releases(c.View(), pod)
	return plugin.PostFilterResult{Writes: writes}, err
}

// LooksAtOwn reports whether a claim of the pod has a deleted selected node.
func (*Plugin) LooksAtOwn(v state.View, pod *model.Pod) bool { return len(astray(v, pod)) > 0 }

// ConcernsGroup reports whether a claim of the member has a deleted selected node.
func (*Plugin) ConcernsGroup(v state.View, member *model.Pod) bool { return len(astray(v, member)) > 0 }

// released are the writes that release the claims of a member.
type released []plan.Write

// IsGroupNote marks the type as a plugin.GroupNote.
func (released) IsGroupNote() {}

// Member returns the writes that release the member's claims.
func (*Plugin) Member(c plugin.Cycle, member *model.Pod) plugin.GroupNote {
	writes, err := releases(c.View(), member)
	if err != nil || len(writes) == 0 {
		return nil
	}
	return released(writes)
}

// FreeForGroup releases the claims of all members. Members may share a claim.
func (*Plugin) FreeForGroup(_ state.View, _ *model.PodGroup, _ *model.Pod, notes []plugin.GroupNote) (plugin.GroupFreed, error) {
	var freed plugin.GroupFreed
	seen := map[model.ClaimKey]bool{}
	for _, note := range notes {
		for _, write := range note.(released) {
			key := model.ClaimKey{Namespace: write.Namespace, Name: write.Name}
			if !seen[key] {
				seen[key] = true
				freed.Writes = append(freed.Writes, write)
			}
		}
	}
	return freed, nil
}

// astray returns the pod's claims with a selected node that does not exist, each once. A
// claim is left out if the node was selected by a placement that is still being written.
// Nodes rejected as malformed count as existing.
func astray(v state.View, pod *model.Pod) (all []*model.Claim) {
	if pod.Volumes == nil || len(pod.Volumes.Claims) == 0 {
		return nil
	}
	claims, rejection, err := claimsOf(v, pod)
	if rejection != "" || err != nil {
		return nil
	}
	seen := map[*model.Claim]bool{}
	for i := range claims.delayed {
		claim := claims.delayed[i].Claim
		if !claim.IsSelected || seen[claim] {
			continue
		}
		seen[claim] = true
		_, exists := v.Slot(claim.SelectedNode)
		if _, assumed := assumedNode(v, claim); !exists && !assumed {
			all = append(all, claim)
		}
	}
	return all
}

func releases(v state.View, pod *model.Pod) (writes []plan.Write, err error) {
	for _, claim := range astray(v, pod) {
		write, err := release(claim)
		if err != nil {
			return nil, err
		}
		writes = append(writes, *write)
	}
	return writes, nil
}

// release returns the write that removes a claim's selected node if the node does not
// exist.
func release(claim *model.Claim) (*plan.Write, error) {
	p := patch{Metadata: metaOf(claim.Object)}
	p.Metadata.Annotations = map[string]*string{volume.AnnSelectedNode: nil}
	write, err := mergePatch(&p, "persistentvolumeclaims", claim.Object)
	if err == nil && canName(claim.SelectedNode) {
		write.IfAbsent = &plan.Write{Resource: v1.SchemeGroupVersion.WithResource("nodes"), Name: claim.SelectedNode}
	}
	return write, err
}

// canName reports whether the text is a valid node name. Writers of claims can write any
// text, which must not become part of a request's path.
func canName(node string) bool { return len(validation.NameIsDNSSubdomain(node, false)) == 0 }

// selectedKey is the kind of the keys of selected nodes.
const selectedKey = "selected"

// AskedIn returns the selected nodes of the pod's unbound claims. An update of a claim
// wakes the pod by another registration.
func (*Plugin) AskedIn(v state.View, pod *model.Pod) model.Need {
	if pod.Volumes == nil {
		return model.Need{}
	}
	var nodes []string
	for i := range pod.Volumes.Claims {
		if claim := v.Storage().Claim(pod.Volumes.Claims[i].Key); claim != nil && claim.IsSelected && !claim.Bound && canName(claim.SelectedNode) {
			nodes = append(nodes, claim.SelectedNode)
		}
	}
	if len(nodes) == 0 {
		return model.Need{}
	}
	slices.Sort(nodes)
	return model.NeedOf(strings.Join(slices.Compact(nodes), "\n"))
}

// selectedIn returns the nodes of AskedIn.
func selectedIn(asked model.Need) []string {
	if asked == (model.Need{}) {
		return nil
	}
	return strings.Split(asked.String(), "\n")
}

// losesSelected reports whether a claim's selected node was deleted, so that the claim
// can be released.
func losesSelected(asked model.Need, e model.Event) bool {
	return slices.Contains(selectedIn(asked), e.OldNode.Object.Name)
}

func causeOfSelected(asked model.Need) model.Cause {
	nodes := selectedIn(asked)
	if len(nodes) == 0 {
		return model.Cause{Wants: model.Never()}
	}
	var any model.Clause
	for _, name := range nodes {
		any = append(any, model.Key{Kind: selectedKey, Name: name})
	}
	return model.Cause{Wants: []model.Way{{any}}}
}

func touchesSelected(e model.Event, to *model.Touch) {
	to.Has = append(to.Has, model.Key{Kind: selectedKey, Name: e.OldNode.Object.Name})
}
