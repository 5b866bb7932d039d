package chart

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// Variants are the Helm values of each component of deploy/kustomize. An overlay of the
// same name adds the component to the base. The shadow watches another scheduler, so
// Berth has no replica beside it.
var Variants = map[string]map[string]any{
	"monitoring": {"monitoring": map[string]any{"serviceMonitor": map[string]any{"create": true}, "prometheusRule": map[string]any{"create": true}}},
	"shadow":     {"replicas": 0, "shadow": map[string]any{"create": true}},
	"pod-groups": {"featureGates": map[string]any{"GenericWorkload": true}},
}

const (
	header        = "# Made from deploy/helm/berth by `make charts`, and not to be edited.\n"
	kustomization = "kustomization.yaml"
	configFile    = "config.yaml"
)

// Kustomize returns the files of deploy/kustomize by path: a base, and a component and an
// overlay for each variant. The base is the chart's default rendering.
func Kustomize(folder string) (map[string]string, error) {
	rendered, err := Render(folder, nil)
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	base := plain(rendered)
	if err := writeBase(files, base); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(Variants)) {
		rendered, err := Render(folder, Variants[name])
		if err != nil {
			return nil, err
		}
		if err := writeVariant(files, name, base, plain(rendered)); err != nil {
			return nil, fmt.Errorf("component %s: %w", name, err)
		}
	}
	return files, nil
}

func plain(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	for _, o := range objects {
		Plain(o)
	}
	return objects
}

// Plain removes Helm's labels and the checksum that rolls the replicas after a
// configuration change. kustomize has hashes in names for that.
func Plain(o *unstructured.Unstructured) {
	for _, at := range [][]string{{"metadata"}, {"spec", "template", "metadata"}} {
		for _, label := range []string{"app.kubernetes.io/managed-by", "helm.sh/chart"} {
			unstructured.RemoveNestedField(o.Object, append(slices.Clone(at), "labels", label)...)
		}
		unstructured.RemoveNestedField(o.Object, append(slices.Clone(at), "annotations", "checksum/config")...)
		if annotations, found, _ := unstructured.NestedMap(o.Object, append(slices.Clone(at), "annotations")...); found && len(annotations) == 0 {
			unstructured.RemoveNestedField(o.Object, append(slices.Clone(at), "annotations")...)
		}
	}
}

// isConfig reports whether an object holds the scheduler's configuration. kustomize
// generates that object from a file.
func isConfig(o *unstructured.Unstructured) bool {
	return o.GetKind() == "ConfigMap" && o.GetName() == Config
}

func writeBase(files map[string]string, objects []*unstructured.Unstructured) error {
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace",
		// The pods satisfy the strictest Pod Security Standard.
		"metadata": map[string]any{"name": Namespace, "labels": map[string]any{"pod-security.kubernetes.io/enforce": "restricted"}},
	}}
	resources, err := writeObjects(files, "base", append([]*unstructured.Unstructured{namespace}, slices.DeleteFunc(slices.Clone(objects), isConfig)...))
	if err != nil {
		return err
	}
	i := slices.IndexFunc(objects, isConfig)
	if i < 0 {
		return fmt.Errorf("the chart renders no ConfigMap %s", Config)
	}
	content, _, err := unstructured.NestedString(objects[i].Object, "data", configFile)
	if err != nil {
		return err
	}
	files[path.Join("base", configFile)] = header + content
	return writeYAML(files, path.Join("base", kustomization), map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": resources,
		// The name has a hash of the content, so a change rolls the replicas.
		"configMapGenerator": []any{map[string]any{
			"name": Config, "namespace": Namespace, "files": []any{configFile}, "options": map[string]any{"labels": labels(objects[i])},
		}},
	})
}

func labels(o *unstructured.Unstructured) map[string]any {
	all := map[string]any{}
	for name, value := range o.GetLabels() {
		all[name] = value
	}
	return all
}

// writeVariant writes the objects that the base lacks and patches for the ones that
// differ.
func writeVariant(files map[string]string, name string, base, objects []*unstructured.Unstructured) error {
	folder := path.Join("components", name)
	before := map[string]*unstructured.Unstructured{}
	for _, o := range base {
		before[ID(o)] = o
	}
	var added []*unstructured.Unstructured
	var patches []any
	for _, o := range objects {
		old := before[ID(o)]
		if old == nil {
			added = append(added, o)
			continue
		}
		delete(before, ID(o))
		changes := diff(nil, "", old.Object, o.Object)
		if len(changes) == 0 {
			continue
		}
		if isConfig(o) {
			return fmt.Errorf("it changes the configuration, which no patch can: leave that to an overlay with a configMapGenerator of its own")
		}
		file := strings.ToLower(o.GetKind()) + "-patch.yaml"
		if err := writeYAML(files, path.Join(folder, file), changes); err != nil {
			return err
		}
		patches = append(patches, map[string]any{"path": file, "target": map[string]any{"kind": o.GetKind(), "name": o.GetName()}})
	}
	if len(before) > 0 {
		return fmt.Errorf("it lacks objects of the base: %v", slices.Sorted(maps.Keys(before)))
	}
	resources, err := writeObjects(files, folder, added)
	if err != nil {
		return err
	}
	component := map[string]any{"apiVersion": "kustomize.config.k8s.io/v1alpha1", "kind": "Component"}
	if len(resources) > 0 {
		component["resources"] = resources
	}
	if len(patches) > 0 {
		component["patches"] = patches
	}
	if err := writeYAML(files, path.Join(folder, kustomization), component); err != nil {
		return err
	}
	return writeYAML(files, path.Join("overlays", name, kustomization), map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []any{"../../base"}, "components": []any{"../../components/" + name},
	})
}

// writeObjects writes a file for each kind and returns the file names.
func writeObjects(files map[string]string, folder string, objects []*unstructured.Unstructured) (names []any, err error) {
	for _, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		name := strings.ToLower(o.GetKind()) + ".yaml"
		at := path.Join(folder, name)
		if files[at] == "" {
			files[at] = header
			names = append(names, name)
		} else {
			files[at] += "---\n"
		}
		files[at] += string(text)
	}
	return names, nil
}

func writeYAML(files map[string]string, at string, content any) error {
	text, err := yaml.Marshal(content)
	files[at] = header + string(text)
	return err
}

// operation is a JSON patch operation (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// diff appends the operations that turn one value into another. Values inserted into a
// list become separate operations, so several patches can be applied to the list.
func diff(to []operation, at string, before, after any) []operation {
	switch old := before.(type) {
	case map[string]any:
		if now, ok := after.(map[string]any); ok {
			return diffFields(to, at, old, now)
		}
	case []any:
		if now, ok := after.([]any); ok {
			if inserted, ok := insertions(at, old, now); ok {
				return append(to, inserted...)
			}
			if len(old) == len(now) {
				for i := range old {
					to = diff(to, at+"/"+strconv.Itoa(i), old[i], now[i])
				}
				return to
			}
		}
	}
	if reflect.DeepEqual(before, after) {
		return to
	}
	return append(to, operation{"replace", at, after})
}

func diffFields(to []operation, at string, before, after map[string]any) []operation {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		path := at + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		old, was := before[name]
		now, is := after[name]
		switch {
		case !is:
			to = append(to, operation{Op: "remove", Path: path})
		case !was:
			to = append(to, operation{"add", path, now})
		default:
			to = diff(to, path, old, now)
		}
	}
	return to
}

// insertions returns the operations that insert values into a list; ok is false if
// anything else has changed.
func insertions(at string, before, after []any) (operations []operation, ok bool) {
	next := 0
	for i, value := range after {
		switch {
		case next < len(before) && reflect.DeepEqual(before[next], value):
			next++
		case next == len(before):
			operations = append(operations, operation{"add", at + "/-", value})
		default:
			operations = append(operations, operation{"add", at + "/" + strconv.Itoa(i), value})
		}
	}
	return operations, next == len(before)
}
