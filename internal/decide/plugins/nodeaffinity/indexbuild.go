package nodeaffinity

import (
	"cmp"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// builder builds an index, term by term.
type builder struct {
	x *index
	// objecting is by key; names is the same for the node's name.
	objecting [][]int32
	names     []int32
	sorted    []*labelRequirement
	counts    map[string]int
}

// namedKey is a label that terms name.
type namedKey struct {
	keyed
	name string
}

// add adds the requirements of a term on labels and on the node's name.
func (b *builder) add(at int32, t *term) {
	b.sorted = b.sorted[:0]
	for i := range t.labels {
		b.sorted = append(b.sorted, &t.labels[i])
	}
	slices.SortStableFunc(b.sorted, func(a, b *labelRequirement) int { return strings.Compare(a.key, b.key) })
	requires := 0
	for rest := b.sorted; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].key == rest[0].key {
			n++
		}
		if b.addKey(at, rest[:n]) {
			requires++
		}
		rest = rest[n:]
	}
	b.x.requires[at] = int32(requires)
	if requires == 0 {
		b.x.unconditional.put(at)
	}
	b.addName(at, t.fields)
}

func (b *builder) key(name string) int32 {
	at, known := b.x.keys[name]
	if !known {
		at = int32(len(b.x.byKey))
		b.x.keys[name] = at
		b.x.byKey = append(b.x.byKey, namedKey{name: name})
		b.objecting = append(b.objecting, nil)
	}
	return at
}

// addKey adds all requirements of a term on one label. It reports whether the label must
// be present.
func (b *builder) addKey(term int32, all []*labelRequirement) (required bool) {
	at := b.key(all[0].key)
	k := &b.x.byKey[at]
	d := demandOf(all)
	if d.bounds.hasLow || d.bounds.hasTop {
		d.bounds.term = term
		k.ranged = append(k.ranged, d.bounds)
	}
	if d.required {
		k.requiring = append(k.requiring, term)
	}
	if d.absent || len(d.in) > 0 {
		b.objecting[at] = append(b.objecting[at], term)
	}
	if !d.absent {
		b.values(&k.keyed, term, d.in, d.notIn)
	}
	return d.required
}

// demand combines the requirements of a term on one label.
type demand struct {
	required, absent bool
	in, notIn        [][]string
	bounds           within
}

func demandOf(all []*labelRequirement) (d demand) {
	for _, r := range all {
		switch r.operator {
		case v1.NodeSelectorOpNotIn:
			d.notIn = append(d.notIn, r.values)
			continue
		case v1.NodeSelectorOpDoesNotExist:
			d.absent = true
			continue
		case v1.NodeSelectorOpIn:
			d.in = append(d.in, r.values)
		case v1.NodeSelectorOpGt:
			if !d.bounds.hasLow || r.bound > d.bounds.low {
				d.bounds.hasLow, d.bounds.low = true, r.bound
			}
		case v1.NodeSelectorOpLt:
			if !d.bounds.hasTop || r.bound < d.bounds.top {
				d.bounds.hasTop, d.bounds.top = true, r.bound
			}
		}
		d.required = true
	}
	return d
}

// values records the values that a term judges differently from others. With In
// requirements, these are the values that all In lists have and no NotIn list has.
// Without In, these are the values of the NotIn lists.
func (b *builder) values(k *keyed, term int32, in, notIn [][]string) {
	if len(in) == 0 {
		b.distinct(notIn, func(value string, _ int) { k.put(value, verdictOf(term, false)) })
		return
	}
	accepted := func(value string) { k.put(value, verdictOf(term, true)) }
	if len(in) == 1 && len(notIn) == 0 {
		for i, value := range in[0] { // sorted
			if i == 0 || value != in[0][i-1] {
				accepted(value)
			}
		}
		return
	}
	excluded := map[string]bool{}
	for _, values := range notIn {
		for _, value := range values {
			excluded[value] = true
		}
	}
	b.distinct(in, func(value string, lists int) {
		if lists == len(in) && !excluded[value] {
			accepted(value)
		}
	})
}

// distinct yields each value of the sorted lists, in any order, with the number of lists
// that have it.
func (b *builder) distinct(lists [][]string, yield func(value string, lists int)) {
	if b.counts == nil {
		b.counts = map[string]int{}
	}
	clear(b.counts)
	for _, values := range lists {
		for i, value := range values {
			if i == 0 || value != values[i-1] {
				b.counts[value]++
			}
		}
	}
	// The order has no effect: each value has its own verdicts.
	for value, lists := range b.counts {
		yield(value, lists)
	}
}

// put records a term's verdict on a listed value. finish moves it to verdicts.
func (k *keyed) put(value string, v verdict) {
	if k.listed == nil {
		k.listed = map[string]int32{}
	}
	number, known := k.listed[value]
	if !known {
		number = int32(len(k.listed))
		k.listed[value] = number
	}
	k.noted = append(k.noted, noted{number, v})
}

// noted is a verdict on a value, by the value's number.
type noted struct {
	value int32
	verdict
}

// addName adds the requirements of a term on the node's name, which every node has.
func (b *builder) addName(term int32, fields []fieldRequirement) {
	var in, notIn [][]string
	for i := range fields {
		switch r := &fields[i]; {
		case !r.isName:
		case r.equal:
			in = append(in, []string{r.value})
		default:
			notIn = append(notIn, []string{r.value})
		}
	}
	if len(in)+len(notIn) == 0 {
		return
	}
	if b.x.names == nil {
		b.x.names = new(keyed)
	}
	if len(in) > 0 {
		b.names = append(b.names, term)
	}
	b.values(b.x.names, term, in, notIn)
}

// finish turns long lists into sets.
func (b *builder) finish() {
	for at := range b.x.byKey {
		b.x.byKey[at].finish(b.objecting[at], b.x.terms)
	}
	if b.x.names != nil {
		b.x.names.finish(b.names, b.x.terms)
	}
}

func (k *keyed) finish(objecting []int32, terms int) {
	k.objecting = membersOf(objecting, terms)
	slices.SortStableFunc(k.noted, func(a, b noted) int { return cmp.Compare(a.value, b.value) })
	all, rest := make([]verdict, len(k.noted)), k.noted
	k.verdicts, k.noted = make([][]verdict, len(k.listed)), nil
	for len(rest) > 0 {
		n := 0
		for ; n < len(rest) && rest[n].value == rest[0].value; n++ {
			all[n] = rest[n].verdict
		}
		k.verdicts[rest[0].value] = all[:n:n]
		if n > 2*sparse(terms) {
			k.objectTo(rest[0].value, all[:n], objecting, terms)
		}
		all, rest = all[n:], rest[n:]
	}
}

// objectTo records all terms that reject a value.
func (k *keyed) objectTo(value int32, verdicts []verdict, objecting []int32, terms int) {
	if k.objectors == nil {
		k.objectors = map[int32]set{}
	}
	all := setOf(objecting, terms)
	for _, v := range verdicts {
		if v.accepts() {
			all.drop(v.term())
		} else {
			all.put(v.term())
		}
	}
	k.objectors[value] = all
}
