// Package volumebinding places a pod where its volumes are usable: the volumes that its
// claims are bound to, and those that they will be bound to.
//
// It takes a pod's claims, the free storage and a node's labels, and returns a verdict
// and a score. For a chosen node it returns the pod's holds, and the writes and the wait
// between the decision and the binding. It owns nothing: the state's store tracks free
// storage.
package volumebinding

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/shape"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "VolumeBinding"

// Plugin finds volumes for pods.
type Plugin struct {
	// timeout limits the wait of a placement for its claims to be bound.
	timeout time.Duration
	// ratings rate the use of storage; nil disables scoring.
	ratings *shape.Ratings
}

// New returns the plugin. Without a utilization shape it does not score.
func New(args *configv1.VolumeBindingArgs) (*Plugin, error) {
	p := &Plugin{}
	if args.BindTimeoutSeconds != nil {
		p.timeout = time.Duration(*args.BindTimeoutSeconds) * time.Second
	}
	if len(args.Shape) > 0 {
		p.ratings = shape.Rate(args.Shape)
	}
	return p, nil
}

// Name returns "VolumeBinding".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister(), Asked: p.AskedIn},
		Filter: &plugin.Filter{
			Reads: plugin.Reads{Nodes: reads, Objects: []model.Kind{
				model.PersistentVolumeKind, model.PersistentVolumeClaimKind, model.StorageClassKind, model.CSINodeKind,
				model.CSIDriverKind, model.CSIStorageCapacityKind,
			}},
			NeedIn: p.FilterNeedIn,
		},
		PostFilter: &plugin.PostFilter{Run: p.PostFilter, Own: p.LooksAtOwn, Freeing: &plugin.GroupFreeing{
			Concerns: p.ConcernsGroup, Member: p.Member, Free: p.FreeForGroup,
		}},
		Score:   &plugin.Score{Reads: p.ScoreReads(), Normalization: p.Normalization(), NeedIn: p.ScoreNeedIn},
		Reserve: &plugin.Reserve{Holds: p.Reserve},
		PreBind: &plugin.PreBind{Steps: p.PreBind, Done: p.Done},
	})
}

// reads are the aspects that the filter and the scores depend on, which find the same
// volumes: a node's labels and CSINode, which decide the usable volumes, and the storage
// that is free there.
const reads = model.Labels | model.Volumes | model.Supply

// ScoreReads returns what the scores depend on.
func (p *Plugin) ScoreReads() model.Aspect { return reads }

// Normalization returns AsIs: scores are already in range.
func (*Plugin) Normalization() model.Normalization { return model.AsIs }

// FilterNeedIn returns the current demands of the pod's claims. It is nil if they allow
// every node.
func (*Plugin) FilterNeedIn(v state.View, pod *model.Pod) (need plugin.StateNeed, err error) {
	if pod.Volumes == nil || len(pod.Volumes.Claims) == 0 {
		return need, nil
	}
	claims, rejection, err := claimsOf(v, pod)
	if rejection != "" || err != nil {
		return plugin.StateNeed{Rejection: rejection}, err
	}
	if d := claims.demands(v); d != nil {
		need.Need = filterNeed{d}
	}
	return need, nil
}

// ScoreNeedIn returns the current demands of the pod's unbound claims, or nil without
// any.
func (p *Plugin) ScoreNeedIn(v state.View, pod *model.Pod) (plugin.ScoreNeed, error) {
	if p.ratings == nil || pod.Volumes == nil || len(pod.Volumes.Claims) == 0 {
		return nil, nil
	}
	claims, rejection, err := claimsOf(v, pod)
	if rejection != "" || err != nil || len(claims.delayed) == 0 {
		return nil, err
	}
	return scoreNeed{claims.demands(v), p.ratings}, nil
}

// claims are a pod's claims in the order of its volumes, divided by whether they are
// bound. A claim that the pod names twice is in them twice.
type claims struct {
	bound   []*model.Claim
	delayed []delayedClaim
}

// delayedClaim is a claim that is bound when a pod that uses it is placed.
type delayedClaim struct {
	*model.Claim
	class *model.StorageClass
	// node is the selected node to provision the volume for, if selected is set.
	node     string
	selected bool
	// again means that the pod names the claim before.
	again bool
}

// claimsOf returns the pod's claims. A rejection rejects every node; an error fails the
// pod's turn.
func claimsOf(v state.View, pod *model.Pod) (all claims, rejection string, err error) {
	store := v.Storage()
	for _, use := range pod.Volumes.Claims {
		claim := store.Claim(use.Key)
		if rejection := unusable(claim, use, pod); rejection != "" {
			return all, rejection, nil
		}
	}
	immediate := false
	for _, use := range pod.Volumes.Claims {
		claim := store.Claim(use.Key)
		if claim.Bound {
			all.bound = append(all.bound, claim)
			continue
		}
		class := store.Class(claim.Class)
		switch {
		case class != nil && class.Object.VolumeBindingMode == nil:
			return all, "", fmt.Errorf("VolumeBindingMode not set for StorageClass %q", class.Name)
		case class == nil || !class.Waits() || claim.Object.Spec.VolumeName != "":
			immediate = true
		default:
			d := delayedClaim{Claim: claim, class: class, node: claim.SelectedNode, selected: claim.IsSelected}
			if node, assumed := assumedNode(v, claim); assumed {
				d.node, d.selected = node, true
			}
			all.delayed = append(all.delayed, d)
		}
	}
	if immediate {
		return all, "pod has unbound immediate PersistentVolumeClaims", nil
	}
	return all, "", nil
}

// unusable returns why the pod cannot use a claim, or "" if it can. A missing claim is
// nil.
func unusable(claim *model.Claim, use model.PodClaim, pod *model.Pod) string {
	switch {
	case claim == nil && use.Ephemeral:
		return fmt.Sprintf("waiting for ephemeral volume controller to create the persistentvolumeclaim %q", use.Key.Name)
	case claim == nil:
		return fmt.Sprintf("persistentvolumeclaim %q not found", use.Key.Name)
	case claim.Object.Status.Phase == v1.ClaimLost:
		return fmt.Sprintf("persistentvolumeclaim %q bound to non-existent persistentvolume %q", use.Key.Name, claim.Object.Spec.VolumeName)
	case claim.Deleting():
		return fmt.Sprintf("persistentvolumeclaim %q is being deleted", use.Key.Name)
	case use.Ephemeral && claim.Owner != pod.UID:
		return storage.NotOwner(claim.Key, pod.Key()).Error()
	}
	return ""
}
