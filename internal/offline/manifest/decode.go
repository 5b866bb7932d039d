package manifest

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-scheduler/berth/internal/kit/lines"
)

// maxNesting limits the nesting of lists.
const maxNesting = 10

// decoded is an object and its place in the file.
type decoded struct {
	kind   *kind
	object object
	file   string
	line   int
	// admitted means that the object has a uid and a resourceVersion of an API server. An
	// oddity in it is then no error in the files, because a scheduler must handle it.
	admitted bool
}

// result is the result of one unit.
type result struct {
	objects []decoded
	skipped []Skipped
	errs    []*Error
	remarks []*Error // odd fields of an object that is still usable
	noYAML  bool     // the unit cannot be parsed
	strays  int      // documents of a dump that are no objects
}

// add adds the result of a part.
func (r *result) add(part result) {
	r.objects = append(r.objects, part.objects...)
	r.skipped = append(r.skipped, part.skipped...)
	r.errs = append(r.errs, part.errs...)
	r.remarks = append(r.remarks, part.remarks...)
	r.strays += part.strays
}

// decodeAll decodes documents on all processors and returns their results, one per
// document, in order.
func decodeAll(docs []document, m *meter) []result {
	units, first := flatten(docs)
	parts := make([]result, len(units))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(units)) {
		workers.Go(func() {
			var w worker
			for i := next.Add(1) - 1; i < int64(len(units)); i = next.Add(1) - 1 {
				parts[i] = w.unit(units[i], 0)
				m.add(len(units[i].text))
			}
		})
	}
	workers.Wait()
	results := make([]result, len(docs))
	for i, doc := range docs {
		results[i] = merge(doc, parts[first[i]:first[i+1]])
	}
	return results
}

// flatten returns the units of all documents, and for each document the index of its
// first unit.
func flatten(docs []document) (units []unit, first []int) {
	first = make([]int, len(docs)+1)
	for i, doc := range docs {
		if doc.items == nil {
			units = append(units, doc.whole)
		} else {
			units = append(units, doc.items...)
		}
		first[i+1] = len(units)
	}
	return units, first
}

// merge joins the results of a document's parts. If a part cannot be parsed on its own,
// the document is decoded as a whole.
func merge(doc document, parts []result) result {
	if doc.items == nil {
		return parts[0]
	}
	all := result{skipped: doc.skipped}
	for _, part := range parts {
		if part.noYAML {
			var w worker
			return w.unit(doc.whole, 0)
		}
		all.add(part)
	}
	if len(doc.items) > 0 {
		if problem := listProblem(doc.items[0].list); problem != "" {
			return result{errs: []*Error{{File: doc.whole.file, Line: doc.whole.line, Problem: problem}}}
		}
	}
	return all
}

// listProblem returns the reason why a list cannot be read; "" if it can.
func listProblem(list schema.GroupVersionKind) string {
	if scheme.Scheme.Recognizes(list) {
		return ""
	}
	return refusal(list)
}

// worker decodes units, one at a time.
type worker struct {
	yaml yamlReader
}

// unit decodes one unit, or its elements if it is a list.
func (w *worker) unit(u unit, depth int) result {
	js := u.text
	var repeated []*Error
	if u.yaml {
		var err error
		if js, err = w.yaml.json(u); err != nil {
			if js, repeated = withRepeatedKeys(u, err); js == nil {
				return result{errs: yamlErrors(u, err), noYAML: true}
			}
		}
	}
	decoded := w.converted(u, js, depth)
	decoded.remarks = append(repeated, decoded.remarks...)
	return decoded
}

// converted decodes one unit, whose JSON is given.
func (w *worker) converted(u unit, js []byte, depth int) result {
	s := scanner{text: js}
	h, err := s.headOf()
	if err != nil || s.more() {
		if u.found && stdjson.Valid(js) {
			return result{strays: 1} // an array, a number or text
		}
		return failure(u, shapeProblem(u, js))
	}
	if h.oddItems && bytes.HasSuffix(h.kind, []byte("List")) {
		return failure(u, &Error{Field: "items", Problem: "must be given once, as an array"})
	}
	if _, ok := h.list(); ok {
		return w.items(u, js, h, depth)
	}
	if h.export() {
		return w.export(u, js, depth)
	}
	return one(u, js, h)
}

// export decodes an export that was not split before.
func (w *worker) export(u unit, js []byte, depth int) result {
	part := u
	part.text, part.yaml, part.dash = js, false, -1
	items, skipped := splitExport(part)
	if items == nil {
		return failure(u, shapeProblem(u, js))
	}
	all := w.all(u, items, depth)
	all.skipped = append(all.skipped, skipped...)
	return all
}

// items decodes the elements of a list that was not split before.
func (w *worker) items(u unit, js []byte, h head, depth int) result {
	if depth == maxNesting {
		return failure(u, &Error{Problem: fmt.Sprintf("lists are nested more than %d deep", maxNesting)})
	}
	part := u
	part.text, part.yaml, part.dash = js, false, -1
	return w.all(u, splitJSON(part, h), depth)
}

// all decodes the elements of u.
func (w *worker) all(u unit, items []unit, depth int) result {
	var all result
	for _, item := range items {
		if u.yaml {
			item.line = u.line // The lines of the JSON are not the lines of the file.
		}
		if u.place != "" {
			item.place = u.place + "." + item.place
		}
		all.add(w.unit(item, depth+1))
	}
	return all
}

// failure returns the result of a unit that is no object.
func failure(u unit, e *Error) result {
	e.File = u.file
	if e.Line == 0 {
		e.Line = u.line
	}
	if e.Object == "" {
		e.Object = u.place
	}
	return result{errs: []*Error{e}}
}

// shapeProblem returns the reason why a text is no JSON object.
func shapeProblem(u unit, js []byte) *Error {
	var value any
	var syntax *stdjson.SyntaxError
	switch err := stdjson.Unmarshal(js, &value); {
	case errors.As(err, &syntax):
		at := min(int(syntax.Offset), len(js))
		return &Error{Line: u.line + bytes.Count(js[:at], []byte("\n")), Problem: fmt.Sprintf("invalid JSON: %v", err)}
	case err != nil:
		return &Error{Problem: fmt.Sprintf("invalid JSON: %v", err)}
	}
	if _, list := value.([]any); list {
		return &Error{Problem: "is an array, not an object; put it under items: in an object with apiVersion: v1, kind: List"}
	}
	return &Error{Problem: fmt.Sprintf("is %s, not an object; an object has apiVersion, kind and metadata", sample(js))}
}

// gvkOf returns the kind of an object; the items of a typed list may omit it.
func gvkOf(u unit, h head) schema.GroupVersionKind {
	gvk := schema.FromAPIVersionAndKind(string(h.apiVersion), string(h.kind))
	if h.apiVersion == nil && h.kind == nil && u.list.Kind != "List" {
		gvk = u.list
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	return gvk
}

// one decodes an object that is no list.
func one(u unit, js []byte, h head) result {
	gvk := gvkOf(u, h)
	k := rowOf(gvk)
	if k == nil {
		if u.found && gvk.Kind == "" {
			return result{strays: 1}
		}
		if problem := refusal(gvk); problem != "" {
			return failure(u, &Error{Problem: problem})
		}
		if !stdjson.Valid(js) {
			return failure(u, shapeProblem(u, js))
		}
		if slices.Contains(u.customs, gvk.GroupKind()) {
			return customKind(gvk).decode(u, js, h.enormous)
		}
		if strings.HasSuffix(gvk.Kind, "List") {
			return result{} // a list without items: null, or omitted
		}
		return result{skipped: []Skipped{{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Count: 1}}}
	}
	decoded := k.decode(u, js, h.enormous)
	setLines(u, decoded.errs)
	return decoded
}

// setLines replaces the line of the object in errors by the line of the field.
func setLines(u unit, errs []*Error) {
	if len(errs) == 0 {
		return
	}
	text := u.text
	if u.dash >= 0 {
		text = u.withoutDash()
	}
	of := lines.Parse(text)
	for _, e := range errs[:min(len(errs), maxErrors)] {
		if at := of.Line(e.Field); at > 0 {
			e.Line = u.line + at - 1
		}
	}
}

// decode returns the object of kind k in js, checked and with its defaults.
func (k *kind) decode(u unit, js []byte, enormous bool) result {
	r := &report{file: u.file, line: u.line, object: strings.TrimSpace(k.gvk.Kind + " " + u.place)}
	if enormous {
		// Such a number must not reach the decoder, in case it is a quantity.
		if !stdjson.Valid(js) {
			return broken(u, js, r)
		}
		r.object = nameIn(js, k, r.object)
		if locate(k, js, r); len(r.errs) > 0 {
			return result{errs: r.errs}
		}
	}
	decodedObject, _, err := k.codec.Decode(js, nil, nil)
	o, _ := decodedObject.(object)
	admitted := o != nil && o.GetUID() != "" && o.GetResourceVersion() != ""
	switch {
	case err != nil && !stdjson.Valid(js):
		return broken(u, js, r)
	case err != nil && (!admitted || !kruntime.IsStrictDecodingError(err)):
		k.explain(js, err, r)
		return result{errs: r.errs}
	case err != nil:
		k.explain(js, err, r) // fields of another release
		r.admit()
	}
	if o.GetObjectKind().GroupVersionKind().Empty() {
		o.GetObjectKind().SetGroupVersionKind(k.gvk)
	}
	k.put(o, u.into, r)
	if prefix := o.GetGenerateName(); prefix != "" && o.GetName() == "" {
		o.SetName(GeneratedName(prefix, fmt.Sprintf("%s:%d:%s", u.file, u.line, u.place)))
	}
	if k.checkMeta(o, r) {
		before := len(r.errs)
		k.checkLabels(o, r)
		k.check(o, r)
		if admitted {
			r.admitFrom(before)
		}
	}
	if len(r.errs) == 0 {
		fillMeta(k, o)
		k.fill(o)
	}
	return result{objects: []decoded{{kind: k, object: o, file: u.file, line: u.line, admitted: admitted}}, errs: r.errs, remarks: r.remarks}
}

// put sets the namespace of an object that names none.
func (k *kind) put(o object, into *Namespace, r *report) {
	switch {
	case into == nil || !k.namespaced:
	case o.GetNamespace() == "":
		o.SetNamespace(into.Name)
	case into.Only && o.GetNamespace() != into.Name:
		r.object = k.identity(o).String()
		r.add("metadata.namespace", "is %q, and --namespace is %q; make them equal, or leave one of the two out", o.GetNamespace(), into.Name)
	}
}

// explain reports the fields that made the decoder fail with err.
func (k *kind) explain(js []byte, err error, r *report) {
	r.object = nameIn(js, k, r.object)
	locate(k, js, r)
	strict, ok := kruntime.AsStrictDecodingError(err)
	if ok {
		for _, e := range strict.Errors() {
			var at interface{ FieldPath() string }
			if errors.As(e, &at) && strings.HasPrefix(e.Error(), "duplicate") {
				r.add(at.FieldPath(), "is given twice; remove one of the two")
			}
		}
	}
	if len(r.errs) == 0 {
		r.add("", "%v", err)
	}
}

// broken returns the result of a text that is not JSON. Only its place identifies the
// object.
func broken(u unit, js []byte, r *report) result {
	e := shapeProblem(u, js)
	e.Object = r.object
	return failure(u, e)
}

// nameIn returns the name of an object whose fields may be invalid.
func nameIn(js []byte, k *kind, otherwise string) string {
	var named struct {
		Metadata struct{ Name, Namespace string }
	}
	// Fields that cannot be decoded stay empty; their errors are reported elsewhere.
	_ = stdjson.Unmarshal(js, &named)
	if named.Metadata.Name == "" {
		return otherwise
	}
	id := identity{kind: k.gvk.Kind, namespace: named.Metadata.Namespace, name: named.Metadata.Name}
	if k.namespaced && id.namespace == "" {
		id.namespace = "default"
	}
	return id.String()
}

// sample returns the beginning of a text, for a message.
func sample(text []byte) string {
	const maxSample = 40
	if len(text) > maxSample {
		return string(text[:maxSample]) + "..."
	}
	return string(text)
}
