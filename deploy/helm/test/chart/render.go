// Package chart renders the Helm chart of Berth, and makes the manifests for kustomize of it.
//
// It takes the chart's folder and values; it gives API objects, as `helm template` renders them, and the files of deploy/kustomize. It owns nothing. It never talks to an
// API server.
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

// The release that is rendered.
const (
	Release   = "berth"
	Namespace = "berth-system"
	// Config is the name of the ConfigMap with the configuration.
	Config = Release + "-config"
	// Image stands for a repository that the user has pushed the image to.
	Image = "registry.example/berth"
)

// Kubernetes is the version that templates see.
var Kubernetes = common.KubeVersion{Version: "v1.37.0", Major: "1", Minor: "37"}

// Render returns the objects of the release berth in namespace berth-system, in the order in which Helm creates them. The image's repository is set unless values set it. An
// error says which value is wrong.
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

// WithImage returns the values with the image's repository, unless they have one.
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
