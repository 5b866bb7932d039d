package volumebinding

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/cluster/storage"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// demands are the requirements of a pod's claims on a node.
//
// Thousands of pods have a claim each, so the canonical text names neither claims nor
// volumes. For a bound claim it has the node affinity of the volume. For a claim to bind
// it has the volume requirements, and the sizes of volumes that are free on very many
// nodes. Volumes that are free on few nodes are looked up instead: the journal names
// these nodes when the volumes change.
type demands struct {
	// byClass counts the claims of each class that may share capacities; nil for one
	// claim.
	byClass map[string]int
	bound   []boundVolume
	// selected are the claims with a selected node. find are the claims that need
	// volumes, the smallest first.
	selected, find []delayedClaim
	// wants has an element for each claim in find.
	wants []want
	// wide is the state of storage that very many nodes can use.
	wide []byte
}

// maxWide is the size in bytes up to which a need contains the state of wide storage.
// Needs are kept with their columns, so a longer text is replaced by its hash.
const maxWide = 1 << 10

// boundVolume is the requirement of a bound claim's volume on a node.
type boundVolume struct {
	missing bool // the volume does not exist
	// affinity is the volume's node affinity. migrated replaces it where a CSI driver
	// serves the in-tree plugin.
	affinity, migrated model.Need
	inTree             string
	err                error // the volume cannot be translated
}

// want is the requirement of a claim on its volume.
type want struct {
	claim *model.Claim
	mode  v1.PersistentVolumeMode
	class string // the VolumeAttributesClass
	// selector selects volumes by their labels; nil selects all. err is its parse error.
	selector labels.Selector
	err      error
	// preBound are volumes that name the claim and can hold it, by size and name.
	preBound []*model.Volume
	// selected are the volumes of each wide group that the claim's selector allows, by
	// the group's text. They are searched once per turn and not for each node: if labels
	// differ from volume to volume, the search examines all volumes.
	selected map[model.Need][]*model.Volume
}

// demands returns the demands of the claims, or nil if they allow every node.
func (all *claims) demands(v state.View) *demands {
	var d demands
	seen := map[boundVolume]bool{}
	for _, claim := range all.bound {
		if b, asks := boundOf(v.Storage().Volume(claim.Object.Spec.VolumeName)); asks && !seen[b] {
			seen[b], d.bound = true, append(d.bound, b)
		}
	}
	d.byClass = all.markRepeated()
	for _, claim := range all.delayed {
		if claim.selected {
			d.selected = append(d.selected, claim)
		} else {
			d.find = append(d.find, claim)
		}
	}
	slices.SortStableFunc(d.find, func(a, b delayedClaim) int { return cmp.Compare(a.Request, b.Request) })
	for _, claim := range d.find {
		d.wants = append(d.wants, wantOf(v, claim))
	}
	if len(d.bound)+len(all.delayed) == 0 {
		return nil
	}
	if d.wide = d.appendWide(v.Storage(), nil); len(d.wide) > maxWide {
		sum := sha256.Sum256(d.wide)
		d.wide = append([]byte{'#'}, sum[:]...)
	}
	return &d
}

// markRepeated marks claims that the pod names more than once, and counts the others by
// class. It returns nil for a single claim.
func (all *claims) markRepeated() map[string]int {
	if len(all.delayed) < 2 {
		return nil
	}
	byClass, seen := map[string]int{}, map[model.ClaimKey]bool{}
	for i := range all.delayed {
		claim := &all.delayed[i]
		if claim.again = seen[claim.Key]; !claim.again {
			seen[claim.Key] = true
			byClass[claim.Class]++
		}
	}
	return byClass
}

// boundOf returns the requirement of a volume on a node. A missing volume is nil. asks is
// false if every node can use the volume.
func boundOf(volume *model.Volume) (b boundVolume, asks bool) {
	if volume == nil {
		return boundVolume{missing: true}, true
	}
	b.affinity = volume.Affinity
	if volume.InTree != "" && (volume.Migrated != volume.Affinity || volume.MigrationErr != nil) {
		b.inTree, b.migrated, b.err = volume.InTree, volume.Migrated, volume.MigrationErr
	}
	return b, !b.affinity.IsZero() || b.inTree != ""
}

func wantOf(v state.View, claim delayedClaim) want {
	spec := &claim.Object.Spec
	w := want{claim: claim.Claim, mode: modeOf(spec.VolumeMode), class: textOf(spec.VolumeAttributesClassName)}
	if spec.Selector != nil {
		if w.selector, w.err = metav1.LabelSelectorAsSelector(spec.Selector); w.err != nil {
			w.err = fmt.Errorf("error creating internal label selector for claim: %s: %w", claim.Key, w.err)
		}
	}
	for _, volume := range promised(v, claim.Claim) {
		if volume.Class == claim.Class && w.canHold(volume) {
			w.preBound = append(w.preBound, volume)
		}
	}
	slices.SortFunc(w.preBound, func(a, b *model.Volume) int {
		return cmp.Or(cmp.Compare(a.Capacity, b.Capacity), cmp.Compare(a.Name, b.Name))
	})
	return w
}

// modeOf returns a volume mode, Filesystem by default.
func modeOf(mode *v1.PersistentVolumeMode) v1.PersistentVolumeMode {
	if mode == nil {
		return v1.PersistentVolumeFilesystem
	}
	return *mode
}

func textOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// canHold reports whether a volume is large enough for the claim and of the right kind.
func (w *want) canHold(volume *model.Volume) bool {
	return volume.Capacity >= w.claim.Request && w.isLike(volume) && volume.Object.DeletionTimestamp == nil
}

func (w *want) isLike(volume *model.Volume) bool {
	spec := &volume.Object.Spec
	return w.mode == modeOf(spec.VolumeMode) && w.class == textOf(spec.VolumeAttributesClassName)
}

// accepts reports whether free volumes of the group have the right kind and access modes
// for the claim. Size and selector are not checked.
func (w *want) accepts(g *storage.Group) bool {
	if !w.isLike(g.Sample) {
		return false
	}
	for _, mode := range w.claim.Object.Spec.AccessModes {
		if !slices.Contains(g.Sample.Object.Spec.AccessModes, mode) {
			return false
		}
	}
	return true
}

// selects reports whether the claim's selector, if any, selects a volume.
func (w *want) selects(volume *model.Volume) bool {
	return w.selector == nil || w.selector.Matches(labels.Set(volume.Object.Labels))
}

// appendText appends a canonical text.
func (d *demands) appendText(text []byte) []byte {
	for _, b := range d.bound {
		switch {
		case b.missing:
			text = append(text, 'm')
			continue
		case b.err != nil:
			text = appendPart(append(text, 'e'), b.err.Error())
		default:
			text = append(text, 'b')
		}
		text = appendPart(appendPart(appendPart(text, b.affinity.String()), b.inTree), b.migrated.String())
	}
	for _, claim := range d.selected {
		text = appendClass(appendPart(append(text, 's'), claim.node), claim)
	}
	for i, claim := range d.find {
		text = d.wants[i].appendText(appendClass(append(text, 'f'), claim))
	}
	return append(text, d.wide...)
}

// appendClass appends the inputs of a claim's provisioning except capacities.
func appendClass(text []byte, claim delayedClaim) []byte {
	text = appendPart(appendPart(text, claim.Class), claim.class.Object.Provisioner)
	text = appendPart(text, claim.class.Topologies.String())
	// Scores use this name; without a name, no score.
	text = appendPart(text, textOf(claim.Object.Spec.StorageClassName))
	text = append(strconv.AppendBool(text, claim.Object.Spec.StorageClassName != nil), ' ')
	text = strconv.AppendInt(text, claim.Request, 10)
	if claim.again {
		text = append(text, 'r') // it draws from capacities once
	}
	return strconv.AppendBool(append(text, ' '), claim.HasRequest)
}

func (w *want) appendText(text []byte) []byte {
	text = appendPart(appendPart(text, string(w.mode)), w.class)
	for _, mode := range w.claim.Object.Spec.AccessModes {
		text = appendPart(append(text, 'a'), string(mode))
	}
	if w.err != nil {
		text = appendPart(append(text, 'e'), w.err.Error())
	} else if w.selector != nil {
		text = appendPart(append(text, 'l'), w.selector.String())
	}
	for _, volume := range w.preBound {
		text = appendPart(appendPart(append(text, 'p'), volume.Name), volume.Version())
		text = appendPart(text, w.claim.Key.String())
	}
	return text
}

// appendWide appends the state of wide storage: the relevant volume sizes of each group
// that a claim accepts, and the capacities that suffice for a claim or that claims may
// share.
func (d *demands) appendWide(store *storage.Store, text []byte) []byte {
	seen := map[string]bool{}
	for _, claim := range d.find {
		if seen[claim.Class] {
			continue
		}
		seen[claim.Class] = true
		for _, g := range store.WideGroups(claim.Class) {
			text = d.appendSizes(g, claim.Class, text)
		}
	}
	for _, list := range [][]delayedClaim{d.selected, d.find} {
		for _, claim := range list {
			if !tracksCapacity(store, claim) {
				text = append(text, 'n')
				continue
			}
			text = append(text, 'c')
			store.WideCapacities(claim.Class, func(c *model.StorageCapacity) bool {
				shared := d.byClass[claim.Class] > 1
				if c.Usable && (c.Limit >= claim.Request || shared) {
					if shared {
						text = strconv.AppendBool(append(text, ' '), c.Limit >= claim.Request)
					}
					text = appendPart(appendPart(text, c.Ref().Namespace), c.Ref().Name)
					text = appendPart(text, c.Nodes.String())
					text = strconv.AppendInt(text, c.Capacity, 10)
					text = strconv.AppendBool(append(text, ' '), c.HasCapacity)
				}
				return true
			})
		}
	}
	return text
}

// appendSizes appends the smallest sufficient volumes of the group for each claim of the
// class. It appends as many as the pod has claims, because no claim can take a later one.
//
// With several claims, the volumes' names are appended too. Of equal sizes, the first by
// name is taken, in whichever group, and another claim may need that volume.
func (d *demands) appendSizes(g *storage.Group, class string, text []byte) []byte {
	named := false
	var plain []int // without a selector
	for i, claim := range d.find {
		if claim.Class != class || d.wants[i].err != nil || !d.wants[i].accepts(g) {
			continue
		}
		if !named {
			text, named = appendPart(append(text, 'g'), g.Text.String()), true
		}
		if d.wants[i].selector == nil {
			plain = append(plain, i)
		} else {
			text = d.appendSelected(i, g, text)
		}
	}
	return d.appendPlain(plain, g, text)
}

// appendSelected appends the volumes that a claim's selector selects.
func (d *demands) appendSelected(i int, g *storage.Group, text []byte) []byte {
	text = strconv.AppendInt(append(text, ' '), int64(i), 10)
	w, left := &d.wants[i], len(d.find)
	if w.selected == nil {
		w.selected = map[model.Need][]*model.Volume{}
	}
	w.selected[g.Text] = nil
	g.AtLeast(d.find[i].Request, func(volume *model.Volume) bool {
		if !w.selects(volume) {
			return true
		}
		w.selected[g.Text] = append(w.selected[g.Text], volume)
		text = d.appendVolume(volume, text)
		left--
		return left > 0
	})
	return text
}

// appendPlain appends the volumes for claims without a selector, in one pass. The claims
// are sorted by size: each is appended before the first volume that is large enough. A
// volume that several claims may take is appended once.
func (d *demands) appendPlain(claims []int, g *storage.Group, text []byte) []byte {
	left := 0 // number of volumes that the claims so far may still take
	begin := func() {
		text = strconv.AppendInt(append(text, ' '), int64(claims[0]), 10)
		claims, left = claims[1:], len(d.find)
	}
	if len(claims) > 0 {
		g.AtLeast(d.find[claims[0]].Request, func(volume *model.Volume) bool {
			for len(claims) > 0 && d.find[claims[0]].Request <= volume.Capacity {
				begin()
			}
			if left > 0 {
				text = d.appendVolume(volume, text)
				left--
			}
			return left > 0 || len(claims) > 0
		})
	}
	for len(claims) > 0 { // no volume is large enough
		begin()
	}
	return text
}

func (d *demands) appendVolume(volume *model.Volume, text []byte) []byte {
	text = strconv.AppendInt(append(text, ','), volume.Capacity, 10)
	if len(d.find) > 1 {
		text = appendPart(append(text, '='), volume.Name)
	}
	return text
}

// appendPart appends a part of a text, with its length.
func appendPart(text []byte, part string) []byte {
	return append(append(strconv.AppendInt(text, int64(len(part)), 10), ':'), part...)
}

// tracksCapacity reports whether the claim can be provisioned only from known capacity.
func tracksCapacity(store *storage.Store, claim delayedClaim) bool {
	driver := store.Driver(claim.class.Object.Provisioner)
	return claim.HasRequest && driver != nil && driver.TracksCapacity
}

// filterNeed is the need for verdicts.
type filterNeed struct{ *demands }

func (n filterNeed) AppendText(text []byte) []byte { return n.appendText(text) }

func (n filterNeed) Compile() *plugin.Verdicts {
	f := &verdicts{finder: compile(n.demands)}
	f.own = plugin.Verdicts{NodeVerdicts: f, Failures: f, Sparse: f}
	return &f.own
}

// The verdicts are bits, because a node can be infeasible for several reasons.
const (
	elsewhere reason.Code = 1 << iota // node affinity of a volume
	conflict                          // no volume to bind, and none can be provisioned
	noStorage
	missing // a volume does not exist
)

// reasons are kube-scheduler's messages, in its order.
var reasons = []struct {
	bit  reason.Code
	text string
}{
	{elsewhere, "node(s) didn't match PersistentVolume's node affinity"},
	{conflict, "node(s) didn't find available persistent volumes to bind"},
	{noStorage, "node(s) did not have enough free storage"},
	{missing, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"},
}

// verdicts filters nodes.
type verdicts struct {
	finder
	own plugin.Verdicts
}

func (f *verdicts) Filter(node state.Node) reason.Code {
	code, failed := f.boundOn(node)
	if failed != 0 {
		return failed
	}
	if f.delays {
		unfit, failed := f.unfit(node)
		if failed != 0 {
			return failed
		}
		code |= unfit
	}
	if code != 0 {
		code |= reason.Unresolvable
	}
	return code
}

// Err returns the error of a failed code.
func (f *verdicts) Err(_ state.View, _ *model.Pod, code reason.Code) error { return f.errOf(code) }

// unfit returns why a node is infeasible for the claims to bind.
func (f *verdicts) unfit(node state.Node) (unfit, failed reason.Code) {
	if unfit, failed := f.before(node); unfit != 0 || failed != 0 {
		return unfit, failed
	}
	if unfit, _, known := f.judgeByClass(node); known {
		return unfit, 0
	}
	var space space
	_, unfit, failed = f.find(node, space.empty())
	return unfit, failed
}

// fewNodes is the largest number of nodes with a label value that counts as few.
const fewNodes = 16

// Sparse returns the nodes whose verdict can differ from that of all others. It applies
// if the first volume is usable on few nodes, like a local volume: the first infeasible
// bound claim determines the verdict.
func (f *verdicts) Sparse(s *state.State) (slots []int32, others reason.Code, ok bool) {
	if len(f.bound) == 0 || f.delays || f.bound[0].missing || f.bound[0].inTree != "" {
		return nil, 0, false
	}
	zone, ok := f.selectors[0].affinity.OneOf()
	if !ok {
		return nil, 0, false
	}
	for i, value := range zone.Values {
		if slices.Contains(zone.Values[:i], value) {
			continue
		}
		if slots, ok = s.SlotsWith(zone.Label, value, fewNodes-len(slots), slots); !ok {
			return nil, 0, false
		}
	}
	return slots, elsewhere | reason.Unresolvable, true
}

// Reasons returns a message for each bit.
func (*verdicts) Reasons(code reason.Code) []string {
	var texts []string
	for _, r := range reasons {
		if code&r.bit != 0 {
			texts = append(texts, r.text)
		}
	}
	return texts
}
