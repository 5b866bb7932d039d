package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/internal/answers/devicefit"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// devicesLacking explains why the pod's claims have no devices on a node, or why an
// allocation is not usable there.
func (s *Snapshot) devicesLacking(pod *model.Pod, node state.Node) (lines []string) {
	s.eachClaim(pod, node, func(claim *model.ResourceClaim, found *devicefit.Claim) {
		if found != nil {
			lines = append(lines, found.Lines()...)
			return
		}
		nodes := claim.Allocation().NodeSelector
		if nodes == nil {
			return
		}
		if selector, err := nodeaffinity.NewNodeSelector(nodes); err == nil && !selector.Match(node.Object()) {
			lines = append(lines, fmt.Sprintf("claim %s has devices that can be used where %s%s", claim.Key.Name, textOfSelector(nodes), here(node, keysOf(nodes)...)))
		}
	})
	return lines
}

// notTogether explains a rejection without another explanation.
const notTogether = "each claim has devices alone, and the allocator finds no way to give all of them"

// eachClaim yields the existing claims of a pod, with an explanation of each claim
// without an allocation.
func (s *Snapshot) eachClaim(pod *model.Pod, node state.Node, yield func(*model.ResourceClaim, *devicefit.Claim)) {
	if pod.Devices == nil {
		return
	}
	store := s.state.View().Devices()
	for _, use := range pod.Devices.Claims {
		claim := store.Claim(use.Key)
		switch {
		case claim == nil:
		case claim.Allocation() != nil:
			yield(claim, nil)
		default:
			found := s.devices.Examine(&devicefit.Question{Store: store, Slot: node.Slot(), Node: node.Object(), Claim: claim.Object})
			yield(claim, &found)
		}
	}
}

// maxExamined limits the sets of devices that are compared to find the nearest node.
const maxExamined = 200

// nearestDevices sorts nodes by what they lack of the pod's claims. Nodes with equal
// devices are examined once.
func (s *Snapshot) nearestDevices(pod *model.Pod, nodes []NearNode) {
	s.devices.Begin()
	missing, by := map[string]float64{}, map[string]float64{}
	for i := range nodes {
		slot, ok := s.state.Slot(nodes[i].Name)
		if !ok {
			missing[nodes[i].Name] = math.MaxFloat64
			continue
		}
		node := s.state.View().Node(slot)
		key := string(s.state.View().Devices().AppendKey(nil, slot))
		sum, known := by[key]
		if !known && (s.devices.IsOver() || len(by) >= maxExamined) {
			sum = math.MaxFloat64 // nodes that were not examined come last
		} else if !known {
			s.eachClaim(pod, node, func(_ *model.ResourceClaim, found *devicefit.Claim) {
				if found != nil {
					sum += found.Missing()
				} else {
					sum++
				}
			})
			by[key] = sum
		}
		missing[nodes[i].Name] = sum
	}
	slices.SortStableFunc(nodes, func(a, b NearNode) int { return cmp.Compare(missing[a.Name], missing[b.Name]) })
}
