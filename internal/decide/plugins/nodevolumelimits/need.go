package nodevolumelimits

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
)

// need is the demand for attachments of a pod's volumes.
type need struct {
	// stops are the pod's volumes that cannot be counted, so that nodes are rejected.
	// Only the first that applies to a node matters. So the list has at most two: one
	// that applies only where in-tree volumes count, and then one that applies to every
	// node.
	stops []stop
	// drivers are sorted by name, so that the driver reported as missing is always the
	// same.
	drivers []driver
	// store words the errors of nodes. It is not part of the need's text: only one
	// exists.
	store *storage.Store
}

// stop is the verdict for a volume that cannot be counted.
type stop struct {
	code reason.Code // claimMissing or ownFailure
	text string
	// onlyMigrated limits the verdict to nodes with a CSINode. Elsewhere in-tree volumes
	// are not examined.
	onlyMigrated bool
}

// driver holds the volumes of one CSI driver that the pod needs.
type driver struct {
	name string
	// mustBeInstalled limits pods with these volumes to nodes that list the driver.
	// anywhere extends this to nodes without a CSINode, because one of the volumes is not
	// in-tree.
	mustBeInstalled, anywhere bool
	// unused counts volumes that are attached nowhere and that no other pod can be using,
	// on any node, also in a dry run. used lists the others, sorted.
	unused int
	used   []string
}

// attachable is a volume of the pod.
type attachable struct {
	driver, name string
	inTree       bool
}

func needOf(v state.View, pod *model.Pod) *need {
	n := &need{store: v.Storage()}
	volumes := pod.Volumes
	all := make([]attachable, 0, len(volumes.Claims)+len(volumes.Inline))
	stopped := false // on every node
	inline := volumes.Inline
	for i := 0; i <= len(volumes.Claims) && !stopped; i++ {
		for ; len(inline) > 0 && inline[0].After == i; inline = inline[1:] {
			switch err := inline[0].Err; {
			case err == nil:
				all = append(all, attachable{inline[0].Driver, inline[0].Handle, true})
			case len(n.stops) == 0:
				n.stops = append(n.stops, stop{ownFailure, err.Error(), true})
			}
		}
		if i == len(volumes.Claims) {
			break
		}
		use := &volumes.Claims[i]
		if s := n.stopOf(pod, use); s.code != reason.None {
			n.stops = append(n.stops, s)
			stopped = true
		} else if driver, name, inTree := n.store.Attachable(use.Key); driver != "" {
			all = append(all, attachable{driver, name, inTree})
		}
	}
	if !stopped {
		n.count(all, addedIn(v))
	}
	return n
}

// stopOf returns why a claim cannot be counted. The code is None if it can.
func (n *need) stopOf(pod *model.Pod, use *model.PodClaim) stop {
	if use.Key.Name == "" {
		return stop{code: ownFailure, text: "PersistentVolumeClaim had no name"}
	}
	switch claim := n.store.Claim(use.Key); {
	case claim == nil:
		return stop{code: claimMissing, text: fmt.Sprintf("looking up PVC %s: persistentvolumeclaim %q not found", use.Key, use.Key.Name)}
	case use.Ephemeral && claim.Owner != pod.UID:
		return stop{code: ownFailure, text: storage.NotOwner(use.Key, pod.Key()).Error()}
	}
	return stop{}
}

// addedIn returns the pods that the view adds to the state. The store does not count
// them.
func addedIn(v state.View) (added []*model.Pod) {
	for _, slot := range v.Touched() {
		for pod, n := range v.Node(slot).Changes {
			if n > 0 && pod.Volumes != nil {
				added = append(added, pod)
			}
		}
	}
	return added
}

// count counts the volumes of each driver, each volume once.
func (n *need) count(all []attachable, added []*model.Pod) {
	slices.SortFunc(all, func(a, b attachable) int {
		return cmp.Or(strings.Compare(a.driver, b.driver), strings.Compare(a.name, b.name))
	})
	for i, a := range all {
		if i == 0 || all[i-1].driver != a.driver {
			known := n.store.Driver(a.driver)
			n.drivers = append(n.drivers, driver{name: a.driver, mustBeInstalled: known != nil && known.MustBeInstalled})
		}
		d := &n.drivers[len(n.drivers)-1]
		d.anywhere = d.anywhere || d.mustBeInstalled && !a.inTree
		switch {
		case i > 0 && all[i-1].driver == a.driver && all[i-1].name == a.name:
		case n.store.InUse(a.driver, a.name) || n.isUsedBy(added, a):
			d.used = append(d.used, a.name)
		default:
			d.unused++
		}
	}
}

func (n *need) isUsedBy(pods []*model.Pod, a attachable) bool {
	return slices.ContainsFunc(pods, func(pod *model.Pod) bool {
		return slices.ContainsFunc(pod.Volumes.Claims, func(use model.PodClaim) bool {
			driver, name, _ := n.store.Attachable(use.Key)
			return driver == a.driver && name == a.name
		}) || slices.ContainsFunc(pod.Volumes.Inline, func(v model.InlineVolume) bool { return v.Driver == a.driver && v.Handle == a.name })
	})
}

func (n *need) AppendText(text []byte) []byte {
	for i := range n.stops {
		s := &n.stops[i]
		text = strconv.AppendUint(text, uint64(s.code), 10)
		text = strconv.AppendBool(text, s.onlyMigrated)
		text = model.AppendQuote(text, s.text)
	}
	for i := range n.drivers {
		d := &n.drivers[i]
		text = model.AppendQuote(text, d.name)
		text = strconv.AppendInt(text, int64(d.unused), 10)
		if d.mustBeInstalled {
			text = append(text, '!')
		}
		if d.anywhere {
			text = append(text, '*')
		}
		for _, volume := range d.used {
			text = model.AppendQuote(text, volume)
		}
	}
	return text
}
