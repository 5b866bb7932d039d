package state

import (
	"fmt"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/devices"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/kit/price"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// State is the cluster. The zero value is not usable; call New.
//
// Invariants that hold between two calls of its methods are documented next to the
// fields. Audit checks them.
type State struct {
	// meter counts the cost of decisions.
	meter price.Meter
	// Invariant: slotOf names exactly the slots that are not free, each by its name.
	slotOf map[string]int32 // by node name, including ghosts
	// Invariant: a slot is in free, once, if and only if it has neither a node nor pods.
	free lowestFirst // slots to use again
	// Slots from here on were never cut off.
	cutFrom int
	// Invariant: nodes is the number of slots that are alive.
	nodes int // nodes that exist

	// By slot. A slot is alive while its node exists. A slot with pods but no node is a
	// ghost, until the node appears or the pods are gone.
	// Invariant: all of these have the same length, and so has every other slice by slot.
	alive []bool
	// Invariant: node is nil if and only if the slot is not alive; a node has the slot's
	// name.
	node []*model.Node
	name []string
	// Invariant: nameHash is HashName of the name, if the slot is not free.
	nameHash []uint64
	// Invariant: used is the sum of Occupies, and nonZero of NonZero, of the pods on the
	// slot. used lists a scalar of amount 0 only if some pod on the slot has it.
	used    []model.Sum
	nonZero []model.Sum
	// Invariant: pods and placed hold the same pods; a pod records its slot and its
	// position there, and names the slot's node.
	pods [][]*placed
	// bands are the same pods by priority, see Band.
	bands []bands
	// banded changes with every pod on the slot, and with every version of such a pod.
	// Values of different slots are never equal, except 0: no pod was there.
	banded []uint64
	// Invariant: byPriority counts the pods on all slots by priority, without zeros.
	byPriority map[int32]int
	// Invariant: ports counts, for exactly the host ports that pods on the slot hold, the
	// pods that hold each.
	ports []portCounts

	placed map[model.PodKey]*placed
	// displaced are pods that Displace has taken off their nodes.
	// Invariant: it is empty.
	displaced map[model.PodKey]*placed
	// Invariant: assumed is the number of placed pods in the phase assumed.
	assumed int

	nominations nominations
	// renominated are events that Nominate has caused; the next Apply returns them.
	renominated []model.Event
	// Invariant: each of these pods is on a node.
	// pods passed to Evict that the watch has not shown as leaving
	evicted map[types.UID]leaving
	budgets budgets
	// Invariant: each of these pods is assumed.
	assumption []assumedEvent // events caused by Assume; the next Apply returns them
	// Invariant: held lists exactly the holds of placed pods and of lingering, by object;
	// no list is empty.
	held map[model.Ref][]Holder
	// lingering are holds of pods that are gone, until their bindings have ended.
	lingering map[gonePod][]plan.Hold
	// freed are events about broken promises of devices that Apply has not returned yet.
	freed []model.Event

	// Invariant: images has exactly the names of images that nodes have, with the number
	// of nodes of each.
	images map[string]*image
	// spread changes with every change of images and of nodes, on which the spread of
	// images depends.
	spread  uint64
	journal journal
	// Invariant: at its version, it has amountsOf each slot.
	amounts amounts
	// objects lists the slots where a new version of an API object, of the node or of a
	// pod, changed no aspect, so that journal does not list it. Its entries have no
	// aspects.
	objects journal
	// followed is set by the first reader of objects; nothing is written before.
	followed bool

	stamps uint64 // number of stamps so far
	domains
	// moves counts the changes of nodes that may have moved pods to other domains.
	moves uint64
	// moved are the topologies whose domain of the node changed by the last of these.
	moved           []*topology
	refound         int64 // counts how often a node's domain was recomputed
	turn            turn
	tallies         tallies
	weighed         weighings
	population      population
	terms           termStore
	namespaces      map[string]labels.Set
	namespaceLabels labelledNamespaces
	selectorSources selectorSources
	storage         *storage.Store
	devices         *devices.Store
	groups          groups
	composites      composites
	// Invariant: each of these objects exists.
	// objects whose learned version the watch has not shown yet
	learned map[model.Ref]struct{}
	// Invariant: each of unseen is learned, and a claim.
	unseen map[model.Ref]struct{} // objects that the watch has never shown; nil if none
	// shownLast is the newest version of any claim from the watch.
	shownLast model.Compiled
	peaks     peaks
	now, wall time.Time // of the turn
	takeover  takeover
}

// phase is how far a pod's placement is confirmed.
type phase uint8

const (
	// assumed: decided, not confirmed by the API server yet.
	assumed phase = iota
	// bound: the API server stored the binding, or the watch showed it.
	bound
)

// placed is a pod on a node.
type placed struct {
	pod   *model.Pod
	slot  int32
	index int32 // position in pods[slot]
	phase phase
	// shown means that the watch has shown the pod on its node, beyond the binding's
	// result.
	// Invariant: an assumed pod has not been shown.
	shown bool
	// latest is the newest version of an assumed pod that the watch showed before the
	// binding; it is retried if the binding fails.
	// Invariant: latest is nil unless the pod is assumed, and then a version of that pod
	// without a node.
	latest *model.Pod
	// like are the placed pods with the same labels, likeAt the pod's position among
	// them.
	like   *labelSet
	likeAt int32
	// memberAt is the pod's position among the members of its group.
	memberAt int32
	// terms are the counts of the pod's terms.
	// Invariant: terms has the valid terms of pod.Terms, in their order. It is empty if
	// the pod's many terms are counted as a list.
	terms []*TermCounts
	list  *termList
	// extras records what Assume changed besides the use of the node; nil for most pods.
	extras *extras
}

// image is the state of one image name over all nodes.
type image struct {
	sizeBytes int64 // reported by the first node, until no node has the image
	nodes     int
}

// New returns an empty state.
func New() *State {
	s := &State{
		slotOf:     map[string]int32{},
		placed:     map[model.PodKey]*placed{},
		images:     map[string]*image{},
		held:       map[model.Ref][]Holder{},
		groups:     groups{objects: map[model.GroupKey]*model.PodGroup{}, members: map[model.GroupKey]*groupMembers{}, scheduled: map[model.GroupKey]types.UID{}},
		composites: newComposites(),
		lingering:  map[gonePod][]plan.Hold{},

		learned: map[model.Ref]struct{}{},

		nominations: nominations{byPod: map[model.PodKey]*model.Pod{}, byNode: map[string][]*model.Pod{}},

		domains: domains{topologies: map[TopologyKey]*topology{}, labelled: map[string]int32{}},
		tallies: tallies{
			byKey: map[tallyKey]*Tally{}, bySet: map[string]*podCounts{}, memberships: map[membershipKey]*membership{},
			selectNamespaces: map[*podCounts]struct{}{}, chosen: map[string]*chosenNodes{}, maxBytes: defaultTallyBytes,
		},
		weighed:         weighings{byName: map[*Matcher]*Weighed{}, maxBytes: defaultWeighedBytes},
		population:      population{sets: map[model.LabelSet]*labelSet{}, namespaces: map[string]int{}},
		terms:           termStore{byKey: map[termKey]*TermCounts{}, lists: map[uint64][]*termList{}, absent: map[string]int{}},
		namespaces:      map[string]labels.Set{},
		namespaceLabels: labelledNamespaces{byName: map[string]*labelledNamespace{}},
		byPriority:      map[int32]int{},
		evicted:         map[types.UID]leaving{},
		budgets:         budgets{byNamespace: map[string][]*Budget{}},
		selectorSources: selectorSources{services: newServices(), controllers: map[model.Ref]controller{}},
	}
	s.absent = emptyTopology(s, TopologyKey{})
	touch := func(slot int32, aspects model.Aspect) { s.journal.add(slot, aspects) }
	s.storage, s.devices = storage.New(touch), devices.New(touch)
	return s
}

// SetNow sets the time of the turn, which the owner of the state reads from its clock. It
// changes nothing else: values that depend on time are not cached, and passing time
// causes no event.
func (s *State) SetNow(now time.Time) { s.SetTimes(now, now) }

// SetTimes sets the time of the turn on two clocks. now is steady, for pauses and
// budgets; wall is the system's time, for timestamps of API objects.
func (s *State) SetTimes(now, wall time.Time) { s.now, s.wall = now, wall }

// Slots returns the number of slots: valid slots are 0..Slots()-1, in use or free. Apply
// may reduce it after most nodes were removed; then nodes have moved to other slots.
func (s *State) Slots() int { return len(s.alive) }

// Alive holds for each slot whether its node exists. The slice is the state's own and
// valid until the next change.
func (s *State) Alive() []bool { return s.alive }

// NameHashes holds a hash of each slot's node name, the same in every process. The slice
// is the state's own and valid until the next change.
func (s *State) NameHashes() []uint64 { return s.nameHash }

// Nodes returns the number of existing nodes.
func (s *State) Nodes() int { return s.nodes }

// Pods returns the number of pods on nodes, including assumed ones.
func (s *State) Pods() int { return len(s.placed) }

// Assumed returns the number of assumed pods.
func (s *State) Assumed() int { return s.assumed }

// Version returns the current version of the journal.
func (s *State) Version() uint64 { return s.journal.version() }

// Since returns the changes after a version, or false if the journal no longer has them
// all.
func (s *State) Since(version uint64) ([]Entry, bool) { return s.journal.since(version) }

// ObjectsVersion returns the version of a second journal. It lists the slots where a new
// version of an API object, of the node or of a pod on it, changed no aspect. Only
// readers that show whole objects need it, so it is written from the first call of
// ObjectsVersion on. Its entries have no aspects.
func (s *State) ObjectsVersion() uint64 {
	s.followed = true
	return s.objects.version()
}

// ObjectsSince returns these changes after a version, or false if the journal does not
// have them all.
func (s *State) ObjectsSince(version uint64) ([]Entry, bool) {
	if !s.followed {
		return nil, false
	}
	return s.objects.since(version)
}

// objectReplaced records that a new version of an object on a slot changed no aspect.
func (s *State) objectReplaced(slot int32) {
	if s.followed {
		s.objects.add(slot, 0)
	}
}

// Slot returns the slot of a node that exists.
func (s *State) Slot(name string) (slot int32, ok bool) {
	slot, ok = s.slotOf[name]
	return slot, ok && s.alive[slot]
}

// Node returns the view of one slot.
func (s *State) Node(slot int32) Node { return Node{s: s, slot: slot} }

// PodsOn returns the pods on a slot, in no particular order, whether or not its node
// exists.
func (s *State) PodsOn(slot int32) iter.Seq[*model.Pod] {
	return func(yield func(*model.Pod) bool) {
		for _, p := range s.pods[slot] {
			if !yield(p.pod) {
				return
			}
		}
	}
}

// NodeOf returns the name of the node a pod is on, and whether the API server has
// confirmed it.
func (s *State) NodeOf(key model.PodKey) (name string, confirmed, ok bool) {
	p, ok := s.placed[key]
	if !ok {
		return "", false, false
	}
	return p.pod.NodeName, p.phase == bound, true
}

// PlacedPod returns the pod with a key that is on a node or assumed there; nil if none.
func (s *State) PlacedPod(key model.PodKey) *model.Pod {
	if p := s.placed[key]; p != nil {
		return p.pod
	}
	return nil
}

// Delta is the consequences of a batch of changes for pending pods. It is applied in this
// order: Evicted, Failed, Left, Arrived, Groups, Preempted, Moved, Events.
type Delta struct {
	// Failed are pods whose binding failed, in their newest version, to be retried.
	Failed []Failure
	// Left are pods that are no longer pending: they are gone, or bound.
	Left []model.PodKey
	// Arrived are new pending pods and new versions of known ones.
	Arrived []*model.Pod
	// Evicted are pods passed to Evict that are gone now, or being deleted.
	Evicted []types.UID
	// Moved are pods that were on a node and are shown on another. No event reports the
	// freed space then.
	Moved []types.UID
	// Preempted are preemptions whose evictions have ended.
	Preempted []*model.PreemptionResult
	// Groups are pod groups whose object was added, changed or deleted, or that have more
	// members on nodes.
	Groups []model.GroupKey
	// Composites are composite pod groups that were added, changed or deleted.
	Composites []model.GroupKey
	// Events may help pods that were rejected.
	Events []model.Event
	// Undecided are the pods that an earlier process was deciding when it stopped.
	Undecided []types.UID
}

// Failure is a binding that failed.
type Failure struct {
	Pod *model.Pod
	Err error
	// Rejectors are the plugins that rejected the pod at Permit; empty for any other
	// failure.
	Rejectors []string
}

// Apply applies a batch of changes and returns their consequences.
func (s *State) Apply(changes []model.Change) Delta {
	delta := Delta{Events: append(s.takeAssumed(), s.renominated...)}
	s.renominated = nil
	s.releaseTallies()
	s.sweepPopulation()
	s.sweepTallies()
	s.sweepTopologies()
	s.compactSlots()
	s.shrinkMaps()
	for i := range changes {
		switch c := &changes[i]; c.Kind {
		case model.NodeSet:
			s.setNode(c.Node, &delta)
		case model.NodeGone:
			s.removeNode(c.Name, &delta)
		case model.PodSet:
			s.setPod(c.Pod, c.WasNominated, &delta)
		case model.PodGone:
			s.removePod(c.Key, &delta)
		case model.ObjectSet:
			s.setAny(c, &delta)
		case model.ObjectGone:
			s.removeObject(c.Ref, &delta)
		case model.BindDone:
			s.settleBinding(c.Bind, &delta)
		case model.PreemptionDone:
			s.settlePreemption(c.Preemption, &delta)
		case model.WriteDone:
			s.endGiveBack(c.Write, &delta)
		case model.EventRaised:
			delta.Events = append(delta.Events, *c.Event)
		case model.PodUndecided:
			delta.Undecided = append(delta.Undecided, c.UID)
		default:
			panic(fmt.Sprintf("state: unknown kind of change %d", c.Kind))
		}
	}
	s.forgetUnseen(&delta)
	delta.Events = append(delta.Events, s.freed...)
	s.freed = nil
	return delta
}

// setAny stores a version of an object that is neither a pod nor a node.
func (s *State) setAny(c *model.Change, delta *Delta) {
	if c.Learned {
		s.learn(c.Compiled, delta)
		return
	}
	switch object := c.Compiled.(type) {
	case nil:
		s.setObject(c.Ref, c.Object, delta)
	case *model.DisruptionBudget:
		s.setBudget(object)
	case *model.PodGroup:
		s.setGroup(object, delta)
	case *model.CompositeGroup:
		s.setComposite(object, delta)
	default:
		s.setCompiled(object, delta)
	}
}
