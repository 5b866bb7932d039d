package explain

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// Claim is a PersistentVolumeClaim of a pod.
type Claim struct {
	Name, Class, Request string
	// State describes the claim: bound, with the nodes where its volume is usable, or the
	// event that it waits for.
	State string
}

// claims returns the pod's claims in the order of its volumes, each once. It returns none
// if no plugin reads claims, because the state has none then.
func (s *Snapshot) claims(a *Explanation) []Claim {
	if a.pod.Volumes == nil || !s.readsClaims {
		return nil
	}
	var all []Claim
	seen := map[model.ClaimKey]bool{}
	for _, use := range a.pod.Volumes.Claims {
		if seen[use.Key] {
			continue
		}
		seen[use.Key] = true
		c := Claim{Name: use.Key.Name, State: s.claimState(a, use)}
		if claim := s.store().Claim(use.Key); claim != nil {
			request := claim.Object.Spec.Resources.Requests[v1.ResourceStorage]
			c.Class, c.Request = claim.Class, request.String()
		}
		all = append(all, c)
	}
	return all
}

func (s *Snapshot) claimState(a *Explanation, use model.PodClaim) string {
	claim := s.store().Claim(use.Key)
	switch {
	case claim == nil && use.Ephemeral:
		return "does not exist yet: a controller creates it for the pod"
	case claim == nil:
		return "does not exist"
	case use.Ephemeral && claim.Owner != a.pod.UID:
		return "belongs to something else than the pod"
	case claim.Object.Status.Phase == v1.ClaimLost:
		return fmt.Sprintf("has lost its volume %s", claim.Object.Spec.VolumeName)
	case claim.Deleting():
		return "is being deleted"
	case claim.Bound:
		volume := s.store().Volume(claim.Object.Spec.VolumeName)
		if volume == nil {
			return fmt.Sprintf("is bound to volume %s, which does not exist", claim.Object.Spec.VolumeName)
		}
		return fmt.Sprintf("is bound to volume %s, which can be used %s", volume.Name, whereOf(volume))
	case claim.Object.Spec.VolumeName != "":
		return fmt.Sprintf("names volume %s, and is not bound to it yet", claim.Object.Spec.VolumeName)
	}
	class := s.store().Class(claim.Class)
	switch {
	case claim.Class == "":
		return "is not bound, and has no class: it must be bound before the pod can be placed"
	case class == nil:
		return "is not bound, and its class does not exist"
	case !class.Waits():
		return "is not bound, and its class does not wait for pods: it must be bound before the pod can be placed"
	case claim.IsSelected:
		return s.provisionedFor(claim)
	}
	return "is bound when the pod is placed"
}

// whereOf describes the nodes where a volume is usable, from its node affinity and zone
// labels.
func whereOf(volume *model.Volume) string {
	where := "on every node"
	if affinity := volume.Object.Spec.NodeAffinity; affinity != nil && affinity.Required != nil {
		where = "where " + textOfSelector(affinity.Required)
	}
	for _, zone := range model.ZonesOf(volume.Zones) {
		where += fmt.Sprintf(", in %s %s", zone.Label, strings.Join(zone.Values, " or "))
	}
	return where
}

// textOfSelector returns a node selector as text.
func textOfSelector(selector *v1.NodeSelector) string {
	var terms []string
	for i := range selector.NodeSelectorTerms {
		term := &selector.NodeSelectorTerms[i]
		var all []string
		for _, list := range [][]v1.NodeSelectorRequirement{term.MatchExpressions, term.MatchFields} {
			for j := range list {
				all = append(all, textOfRequirement(&list[j]))
			}
		}
		if len(all) > 0 { // An empty term selects nothing.
			terms = append(terms, strings.Join(all, " and "))
		}
	}
	if len(terms) == 0 {
		return "no node is"
	}
	return strings.Join(terms, ", or ")
}

func textOfRequirement(r *v1.NodeSelectorRequirement) string {
	values := strings.Join(r.Values, ", ")
	switch r.Operator {
	case v1.NodeSelectorOpIn:
		if len(r.Values) == 1 {
			return r.Key + " is " + values
		}
		return fmt.Sprintf("%s is one of %s", r.Key, values)
	case v1.NodeSelectorOpNotIn:
		return fmt.Sprintf("%s is none of %s", r.Key, values)
	case v1.NodeSelectorOpExists:
		return r.Key + " is set"
	case v1.NodeSelectorOpDoesNotExist:
		return r.Key + " is not set"
	case v1.NodeSelectorOpGt:
		return r.Key + " is greater than " + values
	case v1.NodeSelectorOpLt:
		return r.Key + " is less than " + values
	}
	return fmt.Sprintf("%s %s %s", r.Key, r.Operator, values)
}

// provisionedFor describes the node for which the claim's volume is to be provisioned.
func (s *Snapshot) provisionedFor(claim *model.Claim) string {
	text := "is to be provisioned for node " + claim.SelectedNode
	if _, exists := s.state.Slot(claim.SelectedNode); !exists {
		text += ", which does not exist"
	}
	return text
}
