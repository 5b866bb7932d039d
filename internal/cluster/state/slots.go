package state

import (
	"slices"

	"github.com/berth-scheduler/berth/internal/kit/shrink"
	"github.com/berth-scheduler/berth/internal/model"
)

// Free slots cost memory, and time in each scan. So slots are released when a cluster has
// become much smaller. Between decisions, nodes at the end move to free slots at the
// beginning, and the free slots at the end are cut off. The work is done in small parts,
// so that no decision waits long. It starts only when most slots are free, so that it
// costs less than the removal of the nodes did.

const (
	// slotsKept is the number of slots that are always kept. More are kept only if at
	// least 1/sparse of them are in use.
	slotsKept = 1024
	sparse    = 4
	// movedAtOnce and cutAtOnce limit the nodes moved and the slots cut off before one
	// decision.
	movedAtOnce = 8
	cutAtOnce   = 4096
)

// compactSlots does a part of the work if most slots are free.
func (s *State) compactSlots() {
	size, inUse := len(s.alive), len(s.slotOf)
	if size <= slotsKept || inUse > size/sparse {
		return
	}
	left := size
	for moved := 0; left > max(slotsKept, inUse, size-cutAtOnce) && moved < movedAtOnce; left-- {
		if last := int32(left - 1); !s.isFree(last) {
			s.moveSlot(last, s.free.take())
			moved++
		}
	}
	s.resizeSlots(left)
}

// peaks are the largest sizes of maps since they were last shrunk.
type peaks struct {
	slotOf, placed, priorities, nominated, nominatedTo, evicted, budgets, held, learned, images, namespaces, groups, groupMembers, groupsScheduled, composites, compositesBelow, controllers, services, serviceSets, serviceLabels int
	namespaceNames                                                                                                                                                                                                                 int
	absentKeys, termLists, labelled, tallies, tallySets, terms, labelSets, populated                                                                                                                                               int
}

// shrinkMaps releases the memory of maps that were once much larger.
func (s *State) shrinkMaps() {
	p := &s.peaks
	s.slotOf = shrink.Map(s.slotOf, &p.slotOf)
	s.placed = shrink.Map(s.placed, &p.placed)
	s.nominations.byPod = shrink.Map(s.nominations.byPod, &p.nominated)
	s.nominations.byNode = shrink.Map(s.nominations.byNode, &p.nominatedTo)
	s.byPriority = shrink.Map(s.byPriority, &p.priorities)
	s.evicted = shrink.Map(s.evicted, &p.evicted)
	s.budgets.byNamespace = shrink.Map(s.budgets.byNamespace, &p.budgets)
	s.budgets.index.index.under.Shrink()
	s.held = shrink.Map(s.held, &p.held)
	s.learned = shrink.Map(s.learned, &p.learned)
	s.images = shrink.Map(s.images, &p.images)
	s.namespaces = shrink.Map(s.namespaces, &p.namespaces)
	s.namespaceLabels.byName = shrink.Map(s.namespaceLabels.byName, &p.namespaceNames)
	s.namespaceLabels.index.under.Shrink()
	s.population.anywhere.under.Shrink()
	s.tallies.byKey = shrink.Map(s.tallies.byKey, &p.tallies)
	s.tallies.bySet = shrink.Map(s.tallies.bySet, &p.tallySets)
	s.tallies.index.index.under.Shrink()
	s.terms.byKey = shrink.Map(s.terms.byKey, &p.terms)
	s.terms.index.index.under.Shrink()
	s.terms.absent = shrink.Map(s.terms.absent, &p.absentKeys)
	s.terms.lists = shrink.Map(s.terms.lists, &p.termLists)
	s.labelled = shrink.Map(s.labelled, &p.labelled)
	s.population.sets = shrink.Map(s.population.sets, &p.labelSets)
	s.population.index.under.Shrink()
	s.population.namespaces = shrink.Map(s.population.namespaces, &p.populated)
	s.groups.objects = shrink.Map(s.groups.objects, &p.groups)
	s.groups.scheduled = shrink.Map(s.groups.scheduled, &p.groupsScheduled)
	s.composites.objects = shrink.Map(s.composites.objects, &p.composites)
	s.composites.below = shrink.Map(s.composites.below, &p.compositesBelow)
	s.groups.members = shrink.Map(s.groups.members, &p.groupMembers)
	s.storage.Shrink()
	s.devices.Shrink()
	sources := &s.selectorSources
	sources.controllers = shrink.Map(sources.controllers, &p.controllers)
	sources.services.byName = shrink.Map(sources.services.byName, &p.services)
	sources.services.bySet = shrink.Map(sources.services.bySet, &p.serviceSets)
	sources.services.byLabel = shrink.Map(sources.services.byLabel, &p.serviceLabels)
}

func (s *State) isFree(slot int32) bool { return !s.alive[slot] && len(s.pods[slot]) == 0 }

// moveSlot moves a node, or a ghost, with its pods to a free slot that was taken. Its
// former slot is left empty but not in the list of free slots.
func (s *State) moveSlot(from, to int32) {
	s.name[to], s.nameHash[to] = s.name[from], s.nameHash[from]
	s.used[to], s.nonZero[to], s.ports[to] = s.used[from], s.nonZero[from], s.ports[from]
	s.used[from], s.nonZero[from], s.ports[from] = model.Sum{}, model.Sum{}, portCounts{}
	s.bands[to], s.bands[from] = s.bands[from], nil
	s.banded[to], s.banded[from] = s.stamp(), s.stamp()
	s.pods[to], s.pods[from] = s.pods[from], nil
	for _, p := range s.pods[to] {
		p.slot = to
	}
	// The node enters its domains before it leaves them, so that the domains and all
	// counts stay the same.
	labels := s.labelsOf(from)
	s.alive[to], s.node[to] = s.alive[from], s.node[from]
	s.findDomains(to, nil)
	s.alive[from], s.node[from] = false, nil
	s.findDomains(from, labels)
	s.moved = s.moved[:0]
	s.slotOf[s.name[to]] = to
	s.storage.Move(from, to)
	s.devices.Move(from, to)
	s.journal.add(from, model.AllAspects)
	s.journal.add(to, model.AllAspects)
	s.nominations.unsorted = true
}

// resizeSlots cuts off the slots from n on, which hold nothing.
func (s *State) resizeSlots(n int) {
	if n == len(s.alive) {
		return
	}
	s.cutFrom = max(s.cutFrom, len(s.alive))
	s.alive, s.node, s.name, s.nameHash = cutTo(s.alive, n), cutTo(s.node, n), cutTo(s.name, n), cutTo(s.nameHash, n)
	s.used, s.nonZero, s.pods, s.ports = cutTo(s.used, n), cutTo(s.nonZero, n), cutTo(s.pods, n), cutTo(s.ports, n)
	s.bands, s.banded = cutTo(s.bands, n), cutTo(s.banded, n)
	s.cutCounts(n)
	s.storage.Cut(n)
	s.devices.Cut(n)
	s.free = s.free.below(n)
	s.journal.cut(n)
	s.objects.cut(n)
}

// cutTo returns the first n elements. It releases memory if much more than needed is
// allocated.
func cutTo[T any](of []T, n int) []T {
	if cap(of) > 2*max(n, slotsKept) {
		return slices.Clone(of[:n])
	}
	clear(of[n:])
	return of[:n]
}

// lowestFirst is a heap of free slots. The lowest slot is used first, so that the slots
// at the end stay free.
//
// Invariant: no parent is greater than its child.
type lowestFirst []int32

func (h *lowestFirst) put(slot int32) {
	*h = append(*h, slot)
	l := *h
	for i := len(l) - 1; i > 0 && l[i] < l[(i-1)/2]; i = (i - 1) / 2 {
		l[i], l[(i-1)/2] = l[(i-1)/2], l[i]
	}
}

// take removes the lowest slot. The heap must not be empty.
func (h *lowestFirst) take() int32 {
	l := *h
	lowest, last := l[0], len(l)-1
	l[0] = l[last]
	*h = l[:last]
	h.sink(0)
	return lowest
}

// sink moves an element down until none of its children is lower.
func (h lowestFirst) sink(i int) {
	for child := 2*i + 1; child < len(h); child = 2*i + 1 {
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[i] <= h[child] {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// below returns the slots below n, in the same memory unless much more than needed is
// allocated.
func (h lowestFirst) below(n int) lowestFirst {
	left := slices.DeleteFunc(h, func(slot int32) bool { return int(slot) >= n })
	left = cutTo(left, len(left))
	for i := len(left)/2 - 1; i >= 0; i-- {
		left.sink(i)
	}
	return left
}
