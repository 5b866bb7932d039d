package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/answers/devicefit"
	"github.com/berth-scheduler/berth/internal/decide/plugins/dynamicresources"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// deviceEdits returns changes of the pod's ResourceClaims without an allocation. Those
// that depend on devices are derived from the nodes that a change may help.
func (t *trial) deviceEdits() []knob {
	if t.compiled.Devices == nil {
		return nil
	}
	var knobs []knob
	examiner := devicefit.New()
	nodes := t.nodesToEdit()
	for i := range t.Pod.Spec.ResourceClaims {
		use := &t.Pod.Spec.ResourceClaims[i]
		claim, ok := named(othersOf[*resourcev1.ResourceClaim](t), t.Pod.Namespace, t.claimNameOf(use))
		if !ok || claim.Status.Allocation != nil {
			continue
		}
		c := &claimEdits{trial: t, claim: claim, object: "ResourceClaim " + t.Pod.Namespace + "/" + claim.Name, seen: map[string]bool{}, kinds: map[Kind]int{}}
		if use.ResourceClaimTemplateName != nil {
			c.object = "ResourceClaimTemplate " + t.Pod.Namespace + "/" + *use.ResourceClaimTemplateName
		}
		for _, node := range nodes {
			c.ofNode(examiner, node)
		}
		c.ofClaim()
		knobs = append(knobs, c.knobs...)
	}
	slices.SortStableFunc(knobs, func(a, b knob) int { return cmp.Compare(a.at(0).Size, b.at(0).Size) })
	return knobs
}

// nodesToEdit returns the nodes to derive changes of claims from: those that nothing but
// devices rejects, one for each set of devices.
func (t *trial) nodesToEdit() []*v1.Node {
	others := map[string]bool{}
	for _, o := range t.Objections {
		others[o.Node] = slices.ContainsFunc(o.Plugins, func(name string) bool { return name != dynamicresources.Name })
	}
	var nodes []*v1.Node
	known := map[string]bool{}
	for _, node := range t.Nodes {
		slot, ok := t.State.Slot(node.Name)
		if !ok || others[node.Name] {
			continue
		}
		if key := string(t.State.View().Devices().AppendKey(nil, slot)); !known[key] {
			known[key] = true
			nodes = append(nodes, node)
		}
	}
	return firstOf(t, nodes)
}

// claimEdits collects the changes of one claim.
type claimEdits struct {
	*trial
	claim *resourcev1.ResourceClaim
	// object is the object to edit: the claim, or the template that it was made from.
	object string
	knobs  []knob
	seen   map[string]bool // the texts of the changes
	kinds  map[Kind]int    // their numbers
}

// change returns a change of the claim.
func (c *claimEdits) change(kind Kind, size int, edit func(*resourcev1.DeviceClaim), format string, args ...any) Change {
	after := c.claim.DeepCopy()
	edit(&after.Spec.Devices)
	return Change{Kind: kind, Object: c.object, Text: fmt.Sprintf(format, args...), Size: int64(size), swaps: []swap{{before: c.claim, after: after}}}
}

// add adds a change with one setting, once. Of changes in a group, only the smallest that
// helps is suggested. Devices may have values of their own, so changes are bounded.
func (c *claimEdits) add(group string, kind Kind, size int, edit func(*resourcev1.DeviceClaim), format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if c.seen[text] {
		return
	}
	if c.kinds[kind] == maxCandidates {
		c.advice.CutShort = true
		return
	}
	c.seen[text] = true
	c.kinds[kind]++
	c.knobs = append(c.knobs, single(group, c.change(kind, size, edit, "%s", text)))
}

// ofNode adds the changes with which devices of a node would pass a check.
func (c *claimEdits) ofNode(examiner *devicefit.Examiner, node *v1.Node) {
	slot, ok := c.State.Slot(node.Name)
	if !ok {
		return
	}
	found := examiner.Examine(&devicefit.Question{Store: c.State.View().Devices(), Slot: slot, Node: node, Claim: c.claim})
	for i := range found.Requests {
		edits := examiner.Edits(&found.Requests[i])
		for j := range edits {
			e := &edits[j]
			request := c.requestName(e.Index())
			if len(e.Tolerated) > 0 {
				var taints []string
				for k := range e.Tolerated {
					taints = append(taints, devicefit.TaintText(&e.Tolerated[k]))
				}
				c.add("", DeviceTolerate, len(taints), e.Tolerate, "tolerate the device taint %s in %s", strings.Join(taints, ", "), request)
				continue
			}
			from := devicefit.Shown(strings.Join(e.From, " && "))
			if e.To != nil {
				c.add("correct "+request, DeviceSelector, len(e.From), e.Correct, "change %s to %s in %s", from, devicefit.Shown(strings.Join(e.To, " && ")), request)
			}
			c.add("drop "+request, DropDeviceSelector, len(e.From), e.Drop, "drop the selector %s from %s", from, request)
		}
	}
}

func (c *claimEdits) requestName(at int) string {
	return fmt.Sprintf("request %s of %s", c.claim.Spec.Devices.Requests[at].Name, c.object)
}

// ofClaim adds the changes that depend on no device.
func (c *claimEdits) ofClaim() {
	classes := othersOf[*resourcev1.DeviceClass](c.trial)
	for i := range c.claim.Spec.Devices.Requests {
		exactly := c.claim.Spec.Devices.Requests[i].Exactly
		if exactly == nil {
			continue
		}
		if count := exactly.Count; exactly.AllocationMode != resourcev1.DeviceAllocationModeAll && count > 1 {
			c.knobs = append(c.knobs, knob{kind: DeviceCount, settings: int(count - 1), at: func(setting int) Change {
				to := count - 1 - int64(setting)
				change := c.change(DeviceCount, setting+1, func(d *resourcev1.DeviceClaim) { d.Requests[i].Exactly.Count = to },
					"lower the count of %s from %d to %d", c.requestName(i), count, to)
				change.From, change.To = strconv.FormatInt(count, 10), strconv.FormatInt(to, 10)
				return change
			}})
		}
		for _, class := range firstOf(c.trial, classes) {
			if class.Name != exactly.DeviceClassName {
				c.add("", DeviceClass, 1, func(d *resourcev1.DeviceClaim) { d.Requests[i].Exactly.DeviceClassName = class.Name },
					"use device class %s instead of %s in %s", class.Name, exactly.DeviceClassName, c.requestName(i))
			}
		}
	}
	for i := range c.claim.Spec.Devices.Constraints {
		of := &c.claim.Spec.Devices.Constraints[i]
		text := "matchAttribute"
		attribute := of.MatchAttribute
		if attribute == nil {
			text, attribute = "distinctAttribute", of.DistinctAttribute
		}
		if attribute == nil {
			continue
		}
		c.add("", DropConstraint, 1, func(d *resourcev1.DeviceClaim) { d.Constraints = slices.Delete(d.Constraints, i, i+1) },
			"drop the constraint %s %s of %s", text, *attribute, c.object)
	}
}

// deviceClaims returns the changes that create ResourceClaims.
func (t *trial) deviceClaims() []knob {
	if !slices.Contains(t.Reads, model.ResourceClaimKind) {
		return nil
	}
	var knobs []knob
	for i := range t.Pod.Spec.ResourceClaims {
		name := t.Pod.Spec.ResourceClaims[i].ResourceClaimName
		if name == nil {
			continue
		}
		if _, exists := named(othersOf[*resourcev1.ResourceClaim](t), t.Pod.Namespace, *name); exists {
			continue
		}
		for _, class := range firstOf(t, othersOf[*resourcev1.DeviceClass](t)) {
			claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: t.Pod.Namespace, Name: *name}}
			claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "device", Exactly: &resourcev1.ExactDeviceRequest{
				DeviceClassName: class.Name, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}}}
			knobs = append(knobs, single("device claim "+*name, creation(Claim, "ResourceClaim", claim, " (tried with one device of class %s)", class.Name)))
		}
	}
	return knobs
}

func (t *trial) missingDevices(add func(what, namespace, name string)) {
	claims, classes := othersOf[*resourcev1.ResourceClaim](t), othersOf[*resourcev1.DeviceClass](t)
	for i := range t.Pod.Spec.ResourceClaims {
		name := t.claimNameOf(&t.Pod.Spec.ResourceClaims[i])
		if name == "" {
			continue
		}
		claim, ok := named(claims, t.Pod.Namespace, name)
		if !ok {
			add("ResourceClaim", t.Pod.Namespace, name)
			continue
		}
		for j := range claim.Spec.Devices.Requests {
			if exactly := claim.Spec.Devices.Requests[j].Exactly; exactly != nil {
				if _, ok := named(classes, "", exactly.DeviceClassName); !ok {
					add("DeviceClass", "", exactly.DeviceClassName)
				}
			}
		}
	}
}

// claimNameOf returns the name of the ResourceClaim that a pod uses; empty if it is not
// created yet.
func (t *trial) claimNameOf(of *v1.PodResourceClaim) string {
	if of.ResourceClaimName != nil {
		return *of.ResourceClaimName
	}
	for i := range t.Pod.Status.ResourceClaimStatuses {
		if s := &t.Pod.Status.ResourceClaimStatuses[i]; s.Name == of.Name && s.ResourceClaimName != nil {
			return *s.ResourceClaimName
		}
	}
	return ""
}

// devices returns a change for each pod that holds devices: remove it, and delete or free
// its claims. The least important pods come first. Pods that a PodDisruptionBudget
// protects are left out. Preemption never evicts pods for devices.
func (t *trial) devices() []knob {
	if t.compiled.Devices == nil {
		return nil
	}
	var users []*model.Pod
	claims := map[*model.Pod][]swap{}
	for _, claim := range othersOf[*resourcev1.ResourceClaim](t) {
		user := t.userOf(claim)
		if user == nil || user.Priority >= maxPriority || breaksBudget(t.State.View(), []plan.Eviction{{Pod: user}}) {
			continue
		}
		if claims[user] == nil {
			users = append(users, user)
		}
		if metav1.IsControlledBy(claim, user.Object) {
			claims[user] = append(claims[user], swap{before: claim})
			continue
		}
		free := claim.DeepCopy()
		free.Status = resourcev1.ResourceClaimStatus{}
		claims[user] = append(claims[user], swap{before: claim, after: free})
	}
	slices.SortStableFunc(users, func(a, b *model.Pod) int { return int(a.Priority) - int(b.Priority) })
	var knobs []knob
	for _, user := range firstOf(t, users) {
		change := t.removed([]*model.Pod{user})
		change.Text += ", which holds devices"
		change.swaps = append(change.swaps, claims[user]...)
		knobs = append(knobs, single("devices", change))
	}
	return knobs
}

// userOf returns the only pod that uses the devices of a claim; nil if it has none,
// several or another kind of user.
func (t *trial) userOf(claim *resourcev1.ResourceClaim) *model.Pod {
	if len(claim.Status.ReservedFor) != 1 || claim.Status.Allocation == nil {
		return nil
	}
	by := claim.Status.ReservedFor[0]
	if by.APIGroup != "" || by.Resource != "pods" {
		return nil
	}
	user := t.placed(claim.Namespace, by.Name)
	// The UID differs if a pod of the same name has been created since.
	if user == nil || user.Object.UID != by.UID {
		return nil
	}
	return user
}
