package workload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// Template is where a kind of custom resource has its pod templates.
type Template struct {
	kind schema.GroupKind
	path []string
}

// ParseTemplate reads KIND.GROUP=PATH, such as Rollout.argoproj.io=spec.template. In the
// path, * stands for every element of an array or every value of an object.
func ParseTemplate(text string) (Template, error) {
	kind, path, found := strings.Cut(text, "=")
	name, group, dotted := strings.Cut(kind, ".")
	parts := strings.Split(strings.TrimPrefix(path, "."), ".")
	if !found || !dotted || name == "" || group == "" || slices.Contains(parts, "") {
		return Template{}, fmt.Errorf("--pod-template %q: must be KIND.GROUP=PATH, such as Rollout.argoproj.io=spec.template "+
			"or Job.batch.volcano.sh=spec.tasks.*.template", text)
	}
	return Template{schema.GroupKind{Group: group, Kind: name}, parts}, nil
}

// found is a pod template in a custom resource.
type found struct {
	path     string // of the template
	part     string // the key, name or index among several templates; "" for the only one
	template map[string]any
	around   map[string]any // the object that the template is in
}

// find returns the templates at a path under a value.
func find(value any, path []string, at, part string, around map[string]any) []found {
	if len(path) == 0 {
		template, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		return []found{{strings.TrimPrefix(at, "."), part, template, around}}
	}
	switch of := value.(type) {
	case map[string]any:
		if path[0] != "*" {
			return find(of[path[0]], path[1:], at+"."+path[0], part, of)
		}
		var all []found
		for _, key := range slices.Sorted(maps.Keys(of)) {
			all = append(all, find(of[key], path[1:], at+"."+key, strings.ToLower(key), of)...)
		}
		return all
	case []any:
		if path[0] != "*" {
			return nil
		}
		var all []found
		for i, element := range of {
			name := strconv.Itoa(i)
			if object, ok := element.(map[string]any); ok {
				if n, ok := object["name"].(string); ok && n != "" {
					name = n
				}
			}
			all = append(all, find(element, path[1:], fmt.Sprintf("%s[%d]", at, i), name, nil)...)
		}
		return all
	}
	return nil
}

// custom makes the pods of a custom resource. The field replicas beside a template is
// their number; without it a template has one pod.
func (e *expansion) custom(w *item, o *unstructured.Unstructured) {
	var all []found
	for _, t := range e.Templates {
		if t.kind == o.GroupVersionKind().GroupKind() {
			all = append(all, find(o.Object, t.path, "", "", nil)...)
			if len(all) == 0 {
				e.fail(w, strings.Join(t.path, "."), "is no pod template; give its path with --pod-template %s=PATH", t.kind)
			}
		}
	}
	if w.replicas != nil && len(all) > 1 {
		e.fail(w, "", "has %d pod templates, so --scale cannot be", len(all))
		return
	}
	existing := e.pods.owned[w.key()]
	added, have := 0, countActive(existing)
	left := have // The existing pods are assigned to the templates in their order.
	for _, f := range all {
		template := &v1.PodTemplateSpec{}
		if !e.convert(w, f.path, f.template, template) {
			continue
		}
		want := w.wanted(replicasIn(f.around))
		n := e.missing(w, f.path, want, min(left, want))
		name := o.GetName()
		if len(all) > 1 {
			name += "-" + f.part
		}
		e.replicas(newPods(w, template, w.owner(), nil), name, n, min(left, want))
		added, left = added+n, left-min(left, want)
	}
	e.record(w, added, have)
}

// replicasIn returns the field replicas of an object, nil without one.
func replicasIn(object map[string]any) *int32 {
	switch n := object["replicas"].(type) {
	case int64:
		return new(int32(min(n, 1<<31-1)))
	case float64:
		return new(int32(n))
	}
	return nil
}

// convert decodes a part of a custom resource, and checks it if it is a pod template.
func (e *expansion) convert(w *item, path string, from map[string]any, to any) bool {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(from, to, true)
	if err != nil {
		e.fail(w, path, "%v", err)
		return false
	}
	template, ok := to.(*v1.PodTemplateSpec)
	return !ok || e.check(w, path, template)
}

// check checks a pod template.
func (e *expansion) check(w *item, path string, t *v1.PodTemplateSpec) bool {
	errs, remarks := manifest.CheckTemplate(w.place, w.String(), path, t)
	for _, r := range remarks {
		e.report.Notes = append(e.report.Notes, r.Error())
	}
	e.errs = append(e.errs, errs...)
	return len(errs) == 0
}
