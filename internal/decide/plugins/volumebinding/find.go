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

// noProvisioner is the provisioner of classes whose volumes nobody makes.
const noProvisioner = "kubernetes.io/no-provisioner"

// finder finds out what would be done on a node for claims.
type finder struct {
	*demands
	// bound are by demands.bound.
	selectors []boundSelector
	// delays means that there are claims to be bound.
	delays bool
	// provisions are by selected, and then by find.
	provisions []provision
	// preBound are the nodes on which the volumes of wants[i].preBound can be used.
	preBound [][]*model.NodeSelector
	// unreadable is the failed code of the first claim whose selector cannot be parsed, 0 if there is none.
	unreadable reason.Code
	// byClass, unless nil, are the claims by class: they are very many.
	byClass []*classClaims
	// errs are what failed codes stand for, by the number in the code.
	errs []error
}

// boundSelector selects the nodes on which a volume can be used.
type boundSelector struct {
	affinity, migrated *model.NodeSelector
	failed             reason.Code
}

// provision is the provisioning of a volume for a claim.
type provision struct {
	claim delayedClaim
	// can is false if nobody provisions volumes of the class.
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

// boundOn returns what the volumes of bound claims object to a node; it stops at the first that does.
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

// few is how many claims of a pod are found volumes for without allocating.
const few = 4

// space is memory for what is found; it stays on the stack of whoever asks.
type space struct {
	static      [few]match
	provisioned [few]provisioned
}

// found is what would be done on a node: volumes are bound to claims, and others are provisioned.
type found struct {
	static      []match
	provisioned []provisioned
}

func (s *space) empty() found { return found{s.static[:0], s.provisioned[:0]} }

// match is a volume that was found for a claim, the at-th of those to find volumes for.
type match struct {
	at     int
	claim  delayedClaim
	volume *model.Volume
}

// provisioned is a claim for which a volume is to be provisioned, and the capacity in which it finds room; nil if nobody asked for room.
type provisioned struct {
	claim    delayedClaim
	capacity *model.StorageCapacity
}

// find finds volumes for the claims on a node, the smallest claim first, and checks whether volumes can be provisioned for those that find none. It
// appends to what is empty.
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

// before returns what is wrong before volumes are looked for: the node of a claim is decided, or a
// claim cannot be read.
func (f *finder) before(node state.Node) (unfit, failed reason.Code) {
	for i := range f.selected {
		if f.selected[i].node != node.Name() {
			return conflict, 0
		}
	}
	return 0, f.unreadable
}

// volumeFor returns a volume for the i-th claim on a node, nil if there is none: one that names the claim, or else the smallest that is free. If the
// first that names the claim cannot be used on the node, there is none.
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

// on returns what prevents that a volume is provisioned for the node, 0 if nothing does, and the capacity that has room if it has to be known.
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

// classSum is how much the claims of a pod draw from the capacities of a class on a node.
type classSum struct {
	class string
	bytes int64
}

// draw adds a claim to its class. It reports whether the capacities of the class have room for the
// claims so far.
func draw(sums []classSum, node state.Node, claim *delayedClaim) (all []classSum, hasRoom bool) {
	for i := range sums {
		if s := &sums[i]; s.class == claim.Class {
			s.bytes = amount.Add(s.bytes, claim.Request)
			return sums, s.bytes <= node.Storage().RoomAt(node.Slot(), claim.Class)
		}
	}
	return append(sums, classSum{claim.Class, claim.Request}), true // alone it has room
}

// Err returns the error of a failed code.
func (f *finder) Err(code reason.Code) error { return f.errs[code&^reason.Failed] }
