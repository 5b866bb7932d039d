package volumebinding

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Between the decision and the binding, a placement holds a volume for each claim that
// found one, and the selected node for each claim to provision. A hold counts while the
// object has the promised version. As in kube-scheduler, a newer version replaces the
// assumed one, since it shows the changes of others. Writes are not undone if the
// placement fails.

// heldVolume is the value of a hold on a volume: the claim that gets it.
type heldVolume struct {
	claim   model.ClaimKey
	uid     types.UID // of the claim; another claim of the same name gets nothing
	version string    // of the volume
}

// heldClaim is the value of a hold on a claim: its promised volume or its selected node.
type heldClaim struct {
	volume string // empty if the claim will be provisioned
	uid    types.UID
	node   string
	// version is the volume's version, or the claim's if no volume is promised.
	version string
}

// IsHeld marks the types as values of holds.
func (heldVolume) IsHeld() {}
func (heldClaim) IsHeld()  {}

// assumedNode returns the node that a placement has chosen for a claim whose own version
// does not show it.
func assumedNode(v state.View, claim *model.Claim) (node string, assumed bool) {
	for _, h := range v.Holders(claim.Ref()) {
		if held, ok := h.Value.(heldClaim); ok && held.volume == "" && held.version == claim.Version() {
			return held.node, true
		}
	}
	return "", false
}

// promised returns the volumes reserved for a claim: those that name it, and those that a
// placement holds for it.
func promised(v state.View, claim *model.Claim) []*model.Volume {
	store := v.Storage()
	var volumes []*model.Volume
	for _, volume := range store.PreBound(claim.Key) {
		if uid := volume.Object.Spec.ClaimRef.UID; (uid == "" || uid == claim.Object.UID) && !isHeldForAnother(v, volume, claim) {
			volumes = append(volumes, volume)
		}
	}
	for _, h := range v.Holders(claim.Ref()) {
		held, ok := h.Value.(heldClaim)
		if !ok || held.volume == "" || held.uid != claim.Object.UID {
			continue
		}
		if volume := store.Volume(held.volume); volume != nil && volume.Version() == held.version && volume.Object.Spec.ClaimRef == nil {
			volumes = append(volumes, volume)
		}
	}
	return volumes
}

func isHeldForAnother(v state.View, volume *model.Volume, claim *model.Claim) bool {
	for _, h := range v.Holders(volume.Ref()) {
		if held, ok := h.Value.(heldVolume); ok && held.version == volume.Version() && (held.claim != claim.Key || held.uid != claim.Object.UID) {
			return true
		}
	}
	return false
}

// Reserve holds the volumes found for the pod's claims on the node, and the node for
// claims that will be provisioned.
func (*Plugin) Reserve(v state.View, pod *model.Pod, slot int32) ([]plan.Hold, error) {
	if pod.Volumes == nil || len(pod.Volumes.Claims) == 0 {
		return nil, nil
	}
	claims, rejection, err := claimsOf(v, pod)
	if rejection != "" {
		err = errors.New(rejection)
	}
	if err != nil || len(claims.delayed) == 0 {
		return nil, err
	}
	node := v.Node(slot)
	f := compile(claims.demands(v))
	found, unfit, failed := f.find(node, found{})
	switch {
	case failed != 0:
		return nil, f.errOf(failed)
	case unfit != 0:
		return nil, fmt.Errorf("the pod's claims cannot be bound on node %s any more", node.Name())
	}
	var holds []plan.Hold
	for _, m := range found.static {
		// In a draft, whose holds the store does not have.
		if isHeldForAnother(v, m.volume, m.claim.Claim) {
			return nil, fmt.Errorf("persistentvolume %q is promised to another claim", m.volume.Name)
		}
		holds = append(holds,
			plan.Hold{Plugin: Name, Object: m.volume.Ref(), Value: heldVolume{m.claim.Key, m.claim.Object.UID, m.volume.Version()}},
			plan.Hold{Plugin: Name, Object: m.claim.Ref(), Value: heldClaim{volume: m.volume.Name, uid: m.claim.Object.UID, version: m.volume.Version()}},
		)
	}
	for _, p := range found.provisioned {
		holds = append(holds, plan.Hold{Plugin: Name, Object: p.claim.Ref(), Value: heldClaim{node: node.Name(), version: p.claim.Version()}})
	}
	return holds, nil
}

// PreBind writes the claims of volumes, then the selected nodes of claims, and waits
// until the claims are bound. A claim that the pod names twice is written once.
// kube-scheduler writes it twice, and the second write fails.
func (p *Plugin) PreBind(v state.View, placement *plan.Placement) ([]plan.Step, error) {
	store := v.Storage()
	var steps []plan.Step
	var waits, written []model.Ref
	for _, h := range placement.Holds { // Reserve puts volumes before claims to provision
		var write *plan.Write
		var err error
		switch held := h.Value.(type) {
		case heldVolume:
			write, err = writeOfVolume(store.Volume(h.Object.Name), store.Claim(held.claim))
		case heldClaim:
			if held.volume == "" && !slices.Contains(written, h.Object) {
				written = append(written, h.Object)
				write, err = writeOfClaim(store.Claim(h.Object.ClaimKey()), held.node)
			}
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		waits = append(waits, h.Object)
		if write != nil {
			steps = append(steps, plan.Step{Write: write})
		}
	}
	if len(steps) == 0 {
		return nil, unreserved(v, placement.Pod)
	}
	waits = append(waits, model.Ref{Kind: model.NodeKind, Name: placement.NodeName})
	return append(steps, plan.Step{Wait: &plan.Wait{
		// With timeout 0 the wait fails at once.
		Timeout: cmp.Or(p.timeout, time.Nanosecond),
		Err:     errors.New("binding volumes: context deadline exceeded"),
		For:     waits,
	}}), nil
}

// unreserved returns an error if a pod without holds has claims to bind, for example
// because the plugin is disabled at Reserve. Such a pod would be bound without its
// volumes.
func unreserved(v state.View, pod *model.Pod) error {
	if pod.Volumes == nil || len(pod.Volumes.Claims) == 0 {
		return nil
	}
	claims, rejection, err := claimsOf(v, pod)
	switch {
	case err != nil:
		return err
	case rejection != "":
		return errors.New(rejection)
	case len(claims.delayed) > 0:
		return errors.New("no volumes are reserved for the pod's claims: VolumeBinding must be enabled at Reserve")
	}
	return nil
}

// patch is a merge patch of an object, which must have the version and the UID.
type patch struct {
	Metadata patchMeta `json:"metadata"`
	Spec     any       `json:"spec,omitempty"`
}

type patchMeta struct {
	UID             types.UID `json:"uid"`
	ResourceVersion string    `json:"resourceVersion"`
	// Annotations are set, or removed if they are nil.
	Annotations map[string]*string `json:"annotations,omitempty"`
}

func metaOf(object metav1.Object) patchMeta {
	return patchMeta{UID: object.GetUID(), ResourceVersion: object.GetResourceVersion()}
}

// writeOfVolume returns the write that assigns a volume to a claim. A volume that already
// names the claim is also written, with its version, so that the write fails if the
// volume has changed.
func writeOfVolume(pv *model.Volume, claim *model.Claim) (*plan.Write, error) {
	p := patch{Metadata: metaOf(pv.Object)}
	ref := pv.Object.Spec.ClaimRef
	if ref == nil {
		p.Metadata.Annotations = map[string]*string{volume.AnnBoundByController: new("yes")}
	}
	if ref == nil || ref.UID != claim.Object.UID {
		p.Spec = map[string]any{"claimRef": v1.ObjectReference{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Key.Namespace, Name: claim.Key.Name, UID: claim.Object.UID,
			ResourceVersion: claim.Version(),
		}}
	}
	return mergePatch(&p, "persistentvolumes", pv.Object)
}

// writeOfClaim returns the write that selects the node to provision a claim for.
func writeOfClaim(claim *model.Claim, node string) (*plan.Write, error) {
	p := patch{Metadata: metaOf(claim.Object)}
	p.Metadata.Annotations = map[string]*string{volume.AnnSelectedNode: &node}
	return mergePatch(&p, "persistentvolumeclaims", claim.Object)
}

func mergePatch(p *patch, resource string, object metav1.Object) (*plan.Write, error) {
	data, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode the patch of %s %q: %w", resource, object.GetName(), err)
	}
	return &plan.Write{
		Resource: v1.SchemeGroupVersion.WithResource(resource), Namespace: object.GetNamespace(), Name: object.GetName(),
		Type: types.MergePatchType, Data: data,
	}, nil
}

// Done reports whether the claims of a placement are bound. An error, worded as in
// kube-scheduler, means that they never will be.
func (*Plugin) Done(v state.View, placement *plan.Placement) (bool, error) {
	done, err := isBound(v, placement)
	if err != nil {
		err = fmt.Errorf("binding volumes: %w", err)
	}
	return done, err
}

func isBound(v state.View, placement *plan.Placement) (bool, error) {
	slot, ok := v.Slot(placement.NodeName)
	if !ok {
		return false, fmt.Errorf("failed to get node %q: node %q not found", placement.NodeName, placement.NodeName)
	}
	node := v.Node(slot)
	for _, h := range placement.Holds {
		held, ok := h.Value.(heldVolume)
		if !ok {
			continue
		}
		if done, err := isVolumeBound(v, node, h.Object.Name, held); !done || err != nil {
			return false, err
		}
		if name := v.Storage().Claim(held.claim).Object.Spec.VolumeName; !holds(placement, held.claim, name) {
			return false, fmt.Errorf("persistentvolumeclaim %q is bound to persistentvolume %q, and not to %q", held.claim, name, h.Object.Name)
		}
	}
	for _, h := range placement.Holds {
		held, ok := h.Value.(heldClaim)
		if !ok || held.volume != "" {
			continue
		}
		if done, err := isProvisioned(v, node, h.Object.ClaimKey(), held); !done || err != nil {
			return false, err
		}
	}
	return true, nil
}

// holds reports whether a placement holds the volume for the claim. The claim may have
// been bound to another volume meanwhile. kube-scheduler does not check this and would
// bind the pod although the node may not reach the volume.
func holds(placement *plan.Placement, claim model.ClaimKey, volume string) bool {
	return slices.ContainsFunc(placement.Holds, func(h plan.Hold) bool {
		held, ok := h.Value.(heldVolume)
		return ok && held.claim == claim && h.Object.Name == volume
	})
}

// isVolumeBound reports whether a volume written for a claim is bound.
func isVolumeBound(v state.View, node state.Node, name string, held heldVolume) (bool, error) {
	pv, claim := v.Storage().Volume(name), v.Storage().Claim(held.claim)
	switch {
	case pv == nil:
		return false, fmt.Errorf("failed to check binding: persistentvolumes %q not found", name)
	case claim == nil:
		return false, fmt.Errorf("failed to check binding: persistentvolumeclaims %q not found", held.claim)
	case pv.Version() == held.version && (pv.Object.Spec.ClaimRef == nil || pv.Object.Spec.ClaimRef.UID == ""):
		return false, nil // the write is not visible yet
	}
	if err := reaches(pv, node); err != nil {
		return false, err
	}
	if ref := pv.Object.Spec.ClaimRef; ref == nil || ref.UID == "" {
		return false, fmt.Errorf("ClaimRef got reset for pv %q", name)
	}
	return claim.Bound, nil
}

// isProvisioned reports whether a claim with a selected node is bound.
func isProvisioned(v state.View, node state.Node, key model.ClaimKey, held heldClaim) (bool, error) {
	claim := v.Storage().Claim(key)
	switch {
	case claim == nil:
		return false, fmt.Errorf("failed to check provisioning pvc: persistentvolumeclaims %q not found", key)
	case claim.Version() == held.version && claim.SelectedNode != held.node:
		return false, nil // the write is not visible yet
	case claim.Object.Annotations == nil:
		return false, fmt.Errorf("selectedNode annotation reset for PVC %q", key.Name)
	case claim.SelectedNode != node.Name():
		return false, fmt.Errorf("provisioning failed for PVC %q", key.Name)
	}
	if name := claim.Object.Spec.VolumeName; name != "" {
		pv := v.Storage().Volume(name)
		if pv == nil {
			return false, nil // not visible yet
		}
		if err := reaches(pv, node); err != nil {
			return false, err
		}
	}
	return claim.Bound, nil
}

// reaches returns why a node cannot use a volume, or nil if it can.
func reaches(pv *model.Volume, node state.Node) error {
	affinity, err := pv.AffinityOn(node.Volumes().CSINode())
	if err != nil {
		return fmt.Errorf("failed to translate pv to csi: %w", err)
	}
	if !model.NodeSelectorOf(affinity).Matches(node.Object().Labels) {
		return fmt.Errorf("pv %q node affinity doesn't match node %q: no matching NodeSelectorTerms", pv.Name, node.Name())
	}
	return nil
}
