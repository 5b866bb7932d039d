package volumebinding

import (
	"cmp"
	"fmt"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/amount"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// noProvisioner is the provisioner of classes without dynamic provisioning.
const noProvisioner = "kubernetes.io/no-provisioner"

// finder computes how claims would be served on a node.
type finder struct {
	*demands
	// selectors has an element for each bound volume.
	selectors []boundSelector
	// delays means that some claims are not bound yet.
	delays bool
	// provisions has an element for each selected claim, then for each claim in find.
	provisions []provision
	// preBound are the nodes that can use the volumes of wants[i].preBound.
	preBound [][]*model.NodeSelector
	// unreadable is the failed code of the first claim with a malformed selector, or 0.
	unreadable reason.Code
	// byClass groups the claims by class if they are many; otherwise it is nil.
	byClass []*classClaims
	// errs are the errors of failed codes, by the number in the code.
	errs []error
}

// boundSelector selects the nodes that can use a volume.
type boundSelector struct {
	affinity, migrated *model.NodeSelector
	failed             reason.Code
}

// provision is the provisioning of a volume for a claim.
type provision struct {
	claim delayedClaim
	// can is false for a class without dynamic provisioning.
	can bool
	// allowed selects the nodes for which volumes may be provisioned.
	allowed *model.NodeSelector
}

func compile(d *demands) finder {
	f := finder{demands: d, delays: len(d.selected)+len(d.find) > 0}
	for _, b := range d.bound {
		s := boundSelector{affinity: model.NodeSelectorOf(b.affinity), migrated: model.NodeSelectorOf(b.migrated)}
		if b.err != nil {
			s.failed = f.fails(fmt.Errorf("could not translate pv: %w", b.err))
		}
		f.selectors = append(f.selectors, s)
	}
	for _, list := range [][]delayedClaim{d.selected, d.find} {
		for _, claim := range list {
			provisioner := claim.class.Object.Provisioner
			f.provisions = append(f.provisions, provision{
				claim, provisioner != "" && provisioner != noProvisioner, model.NodeSelectorOf(claim.class.Topologies),
			})
		}
	}
	for i := range d.wants {
		var selectors []*model.NodeSelector
		for _, volume := range d.wants[i].preBound {
			selectors = append(selectors, model.NodeSelectorOf(volume.Affinity))
		}
		f.preBound = append(f.preBound, selectors)
	}
	for i := range d.wants {
		if err := d.wants[i].err; err != nil && f.unreadable == 0 {
			f.unreadable = f.fails(err)
		}
	}
	f.byClass = f.groupByClass()
	return f
}

// fails returns the code of an error.
func (f *finder) fails(err error) reason.Code {
	f.errs = append(f.errs, err)
	return reason.Failed | reason.Code(len(f.errs)-1)
}

// boundOn returns the reason of the first bound claim whose volume the node cannot use.
func (f *finder) boundOn(node state.Node) (unfit, failed reason.Code) {
	labels := node.Object().Labels
	for i := range f.selectors {
		b, s := &f.bound[i], &f.selectors[i]
		if b.missing {
			return missing, 0
		}
		selector := s.affinity
		if b.inTree != "" {
			if csi := node.Volumes().CSINode(); csi != nil && csi.Migrated[b.inTree] {
				if s.failed != 0 {
					return 0, s.failed
				}
				selector = s.migrated
			}
		}
		if !selector.Matches(labels) {
			return elsewhere, 0
		}
	}
	return 0, 0
}

// few is the number of claims of a pod that find handles without allocating.
const few = 4

// space is memory for the result; it stays on the caller's stack.
type space struct {
	static      [few]match
	provisioned [few]provisioned
}

// found is the plan for a node: volumes to bind to claims, and volumes to provision.
type found struct {
	static      []match
	provisioned []provisioned
}

func (s *space) empty() found { return found{s.static[:0], s.provisioned[:0]} }

// match is a volume found for a claim. at is the claim's position in find.
type match struct {
	at     int
	claim  delayedClaim
	volume *model.Volume
}

// provisioned is a claim to provision and its capacity, or nil if capacity is not
// tracked.
type provisioned struct {
	claim    delayedClaim
	capacity *model.StorageCapacity
}

// find finds volumes for the claims on a node, the smallest claim first. For claims
// without a volume, it checks whether one can be provisioned. It appends to empty slices.
func (f *finder) find(node state.Node, to found) (all found, unfit, failed reason.Code) {
	if unfit, failed := f.before(node); unfit != 0 || failed != 0 {
		return to, unfit, failed
	}
	for i, claim := range f.demands.find {
		if volume := f.volumeFor(i, node, to.static); volume != nil {
			to.static = append(to.static, match{i, claim, volume})
		}
	}
	matched := to.static
	var space [few]classSum
	sums := space[:0]
	for i := range f.provisions {
		if len(matched) > 0 && matched[0].at == i-len(f.selected) {
			matched = matched[1:]
			continue
		}
		capacity, unfit := f.provisions[i].on(node)
		if claim := &f.provisions[i].claim; capacity != nil && !claim.again {
			hasRoom := false
			if sums, hasRoom = draw(sums, node, claim); !hasRoom {
				unfit = noStorage
			}
		}
		if unfit != 0 {
			return to, unfit, 0
		}
		to.provisioned = append(to.provisioned, provisioned{f.provisions[i].claim, capacity})
	}
	return to, 0, 0
}

// before returns a reason known before the search: a claim has another selected node, or
// a selector is malformed.
func (f *finder) before(node state.Node) (unfit, failed reason.Code) {
	for i := range f.selected {
		if f.selected[i].node != node.Name() {
			return conflict, 0
		}
	}
	return 0, f.unreadable
}

// volumeFor returns a volume for the i-th claim on a node, or nil. A volume that names
// the claim comes first, then the smallest free volume. If the node cannot use the first
// volume that names the claim, volumeFor returns nil.
func (f *finder) volumeFor(i int, node state.Node, taken []match) *model.Volume {
	w := &f.wants[i]
	labels := node.Object().Labels
	for j, volume := range w.preBound {
		switch {
		case isTaken(volume, taken):
		case f.preBound[i][j].Matches(labels):
			return volume
		default:
			return nil
		}
	}
	var smallest *model.Volume
	node.Storage().GroupsAt(node.Slot(), w.claim.Class, func(g *storage.Group) bool {
		if !w.accepts(g) {
			return true
		}
		take := func(volume *model.Volume) bool {
			if isTaken(volume, taken) || !w.selects(volume) {
				return true
			}
			if smallest == nil || cmp.Or(cmp.Compare(volume.Capacity, smallest.Capacity), cmp.Compare(volume.Name, smallest.Name)) < 0 {
				smallest = volume
			}
			return false
		}
		if selected, known := w.selected[g.Text]; known {
			for _, volume := range selected {
				if !take(volume) {
					break
				}
			}
		} else {
			g.AtLeast(w.claim.Request, take)
		}
		return true
	})
	return smallest
}

func isTaken(volume *model.Volume, taken []match) bool {
	for i := range taken {
		if taken[i].volume.Name == volume.Name {
			return true
		}
	}
	return false
}

// on returns why no volume can be provisioned for the node, or 0. It also returns the
// capacity to use if the driver tracks capacity.
func (p *provision) on(node state.Node) (capacity *model.StorageCapacity, unfit reason.Code) {
	if !p.can || !p.allowed.Matches(node.Object().Labels) {
		return nil, conflict
	}
	store := node.Storage()
	if !tracksCapacity(store, p.claim) {
		return nil, 0
	}
	if capacity = store.CapacityAt(node.Slot(), p.claim.Class, p.claim.Request); capacity == nil {
		return nil, noStorage
	}
	return capacity, 0
}

// classSum is the size that a pod's claims need from the capacities of a class on a node.
type classSum struct {
	class string
	bytes int64
}

// draw adds a claim to its class. It reports whether the capacities of the class suffice
// for the claims so far.
func draw(sums []classSum, node state.Node, claim *delayedClaim) (all []classSum, hasRoom bool) {
	for i := range sums {
		if s := &sums[i]; s.class == claim.Class {
			s.bytes = amount.Add(s.bytes, claim.Request)
			return sums, s.bytes <= node.Storage().RoomAt(node.Slot(), claim.Class)
		}
	}
	// A single claim was checked before.
	return append(sums, classSum{claim.Class, claim.Request}), true
}

// errOf returns the error of a failed code.
func (f *finder) errOf(code reason.Code) error { return f.errs[code&^reason.Failed] }
