// Package chart renders Berth's Helm chart and generates the kustomize manifests from it.
//
// It takes the chart's folder and values. It returns API objects, as in `helm template`,
// and the files of deploy/kustomize. It owns nothing, and never connects to an API
// server.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
)

// The rendered release.
const (
	Release   = "berth"
	Namespace = "berth-system"
	// Config is the name of the ConfigMap with the configuration.
	Config = Release + "-config"
	// Image is a placeholder for the user's repository.
	Image = "registry.example/berth"
)

// Kubernetes is the version in templates.
var Kubernetes = common.KubeVersion{Version: "v1.37.0", Major: "1", Minor: "37"}

// Render returns the objects of release berth in namespace berth-system, in Helm's order
// of creation. Values without an image repository get Image. An error names the wrong
// value.
func Render(folder string, values map[string]any) ([]*unstructured.Unstructured, error) {
	loaded, err := loader.Load(folder)
	if err != nil {
		return nil, fmt.Errorf("load the chart %s: %w", folder, err)
	}
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace, install.KubeVersion = Release, Namespace, &Kubernetes
	rendered, err := install.Run(loaded, WithImage(values))
	if err != nil {
		return nil, fmt.Errorf("render the chart %s: %w", folder, err)
	}
	r, ok := rendered.(*release.Release)
	if !ok {
		return nil, fmt.Errorf("render the chart %s: Helm returned a %T", folder, rendered)
	}
	return Parse([]byte(r.Manifest))
}

// WithImage returns the values with Image as the repository, unless they have one.
func WithImage(values map[string]any) map[string]any {
	return loader.MergeMaps(map[string]any{"image": map[string]any{"repository": Image}}, values)
}

// Parse returns the objects of YAML documents.
func Parse(manifest []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("parse a manifest: %w", err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// ID names an object: kind, and namespace/name.
func ID(o *unstructured.Unstructured) string {
	name := o.GetName()
	if o.GetNamespace() != "" {
		name = o.GetNamespace() + "/" + name
	}
	return o.GetKind() + " " + name
}
