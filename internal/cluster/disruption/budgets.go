package disruption

import (
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// Budgets holds the PodDisruptionBudgets and pods of a cluster, and counts the pods of
// each budget. A change of a pod costs time in the budgets that require a label of the
// pod. A new budget costs time in the pods with a label that the budget requires. One
// goroutine uses it.
type Budgets struct {
	namespaces map[string]*namespace
	matched    int64
}

// namespace holds the objects of one namespace.
type namespace struct {
	// Invariant: each pod is listed under each of its labels, and under the label without
	// a key; no list is empty.
	pods     map[string]*v1.Pod // by name
	labelled map[model.Label]map[string]*v1.Pod
	// Invariant: each budget that selects any pod is listed exactly under its labels in
	// filed; no list is empty.
	budgets   map[string]*filed // by name
	demanding map[model.Label]map[string]*filed
	// Invariant: each budget is listed under the controllers of the pods that it counts,
	// and no others; no list is empty.
	owning map[owner]map[string]*filed
}

// filed is a budget with the labels that it is listed under. Each pod that it selects has
// one label of this list: the values of a key, or the label without a key.
type filed struct {
	*Budget
	under []model.Label
}

// NewBudgets returns Budgets for a cluster without budgets and pods.
func NewBudgets() *Budgets { return &Budgets{namespaces: map[string]*namespace{}} }

// Matched returns how often a pod was matched against a budget so far.
func (b *Budgets) Matched() int64 { return b.matched }

// Get returns a budget, or nil if none has the name.
func (b *Budgets) Get(namespace, name string) *Budget {
	if in := b.namespaces[namespace]; in != nil && in.budgets[name] != nil {
		return in.budgets[name].Budget
	}
	return nil
}

// Set adds or replaces a budget. It returns the budget with its pods counted.
func (b *Budgets) Set(object *policyv1.PodDisruptionBudget) *Budget {
	in := b.in(object.Namespace)
	if have := in.budgets[object.Name]; have != nil {
		if have.Replace(object) {
			return have.Budget
		}
		in.unlist(have)
	}
	f := &filed{Budget: New(object)}
	in.budgets[object.Name] = f
	if _, selectable := f.selector.Requirements(); !selectable {
		return f.Budget
	}
	demands := model.Demands(f.selector)
	f.under = fewest(demands, in.demanding)
	for _, label := range f.under {
		list(in.demanding, label, object.Name, f)
	}
	for _, label := range fewest(demands, in.labelled) {
		for _, pod := range in.labelled[label] {
			b.match(in, f, pod)
		}
	}
	return f.Budget
}

// Remove removes a budget.
func (b *Budgets) Remove(namespace, name string) {
	if in := b.namespaces[namespace]; in != nil && in.budgets[name] != nil {
		in.unlist(in.budgets[name])
		b.shrink(namespace)
	}
}

// SetPod adds or replaces a pod. It returns the budgets whose status may change, by name.
func (b *Budgets) SetPod(pod *v1.Pod) (changed []*Budget) {
	in := b.in(pod.Namespace)
	before := in.pods[pod.Name]
	same := before != nil && maps.Equal(before.Labels, pod.Labels)
	if before != nil && !same {
		eachLabel(before, func(label model.Label) {
			// Budgets that counted the old version.
			changed = append(changed, b.matchAll(in, label, pod)...)
			unlist(in.labelled, label, pod.Name)
		})
	}
	in.pods[pod.Name] = pod
	eachLabel(pod, func(label model.Label) {
		list(in.labelled, label, pod.Name, pod)
		changed = append(changed, b.matchAll(in, label, pod)...)
	})
	return byName(changed)
}

// RemovePod removes a pod. It returns the budgets whose status may change, by name.
func (b *Budgets) RemovePod(namespace, name string) (changed []*Budget) {
	in := b.namespaces[namespace]
	if in == nil || in.pods[name] == nil {
		return nil
	}
	pod := in.pods[name]
	delete(in.pods, name)
	eachLabel(pod, func(label model.Label) {
		unlist(in.labelled, label, name)
		for _, f := range in.demanding[label] {
			b.matched++
			if in.counts(f, name, func() bool { return f.Budget.Remove(namespace, name) }) {
				changed = append(changed, f.Budget)
			}
		}
	})
	b.shrink(namespace)
	return byName(changed)
}

// OfController returns the budgets that count pods of a controller, by name. Their status
// may depend on the controller's replicas. It returns none for other objects.
func (b *Budgets) OfController(object any) (counting []*Budget) {
	of, ok := controllerOf(object)
	if in := b.namespaces[of.namespace]; ok && in != nil {
		for _, f := range in.owning[of.owner] {
			counting = append(counting, f.Budget)
		}
	}
	return byName(counting)
}

// in returns a namespace, which it adds if missing.
func (b *Budgets) in(name string) *namespace {
	in := b.namespaces[name]
	if in == nil {
		in = &namespace{
			pods: map[string]*v1.Pod{}, labelled: map[model.Label]map[string]*v1.Pod{},
			budgets: map[string]*filed{}, demanding: map[model.Label]map[string]*filed{}, owning: map[owner]map[string]*filed{},
		}
		b.namespaces[name] = in
	}
	return in
}

// shrink drops an empty namespace.
func (b *Budgets) shrink(name string) {
	if in := b.namespaces[name]; len(in.pods) == 0 && len(in.budgets) == 0 {
		delete(b.namespaces, name)
	}
}

// matchAll updates the budgets listed under a label with a version of a pod. It returns
// the budgets that changed.
func (b *Budgets) matchAll(in *namespace, label model.Label, pod *v1.Pod) (changed []*Budget) {
	for _, f := range in.demanding[label] {
		if b.match(in, f, pod) {
			changed = append(changed, f.Budget)
		}
	}
	return changed
}

func (b *Budgets) match(in *namespace, f *filed, pod *v1.Pod) (changed bool) {
	b.matched++
	return in.counts(f, pod.Name, func() bool { return f.Budget.Set(pod) })
}

// counts runs count for a budget's pod, and updates the controllers that list the budget.
func (in *namespace) counts(f *filed, pod string, count func() bool) (changed bool) {
	before := f.pods[pod].owner
	if changed = count(); changed {
		after := f.pods[pod].owner
		if before != (owner{}) && f.replicas[before] == 0 {
			unlist(in.owning, before, f.object.Name)
		}
		if after != (owner{}) {
			list(in.owning, after, f.object.Name, f)
		}
	}
	return changed
}

// unlist drops a budget.
func (in *namespace) unlist(f *filed) {
	name := f.object.Name
	delete(in.budgets, name)
	for _, label := range f.under {
		unlist(in.demanding, label, name)
	}
	for of := range f.replicas {
		unlist(in.owning, of, name)
	}
}

// fewest chooses the labels under which a selector is listed, or searched. Each object
// that the selector selects has one of these labels, so it is found under that label. Of
// several choices, fewest returns the one with the shortest lists.
func fewest[V any](demands [][]model.Label, listed map[model.Label]map[string]V) (under []model.Label) {
	least := 0
	for _, some := range demands {
		n := 0
		for _, label := range some {
			n += len(listed[label])
		}
		if under == nil || n < least {
			under, least = some, n
		}
	}
	if under == nil {
		return []model.Label{{}}
	}
	return under
}

// eachLabel yields each label of a pod, and the label without a key.
func eachLabel(pod *v1.Pod, yield func(model.Label)) {
	for key, value := range pod.Labels {
		yield(model.Label{Key: key, Value: value})
	}
	yield(model.Label{})
}

func list[K comparable, V any](lists map[K]map[string]V, under K, name string, value V) {
	if lists[under] == nil {
		lists[under] = map[string]V{}
	}
	lists[under][name] = value
}

func unlist[K comparable, V any](lists map[K]map[string]V, under K, name string) {
	if delete(lists[under], name); len(lists[under]) == 0 {
		delete(lists, under)
	}
}

func byName(budgets []*Budget) []*Budget {
	slices.SortFunc(budgets, func(a, b *Budget) int { return strings.Compare(a.object.Name, b.object.Name) })
	return budgets
}
