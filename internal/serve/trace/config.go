package trace

import (
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	tracingv1 "k8s.io/component-base/tracing/api/v1"
	"sigs.k8s.io/yaml"
)

// file is the TracingConfiguration that kube-apiserver reads, so that one file serves
// both.
type file struct {
	metav1.TypeMeta                `json:",inline"`
	tracingv1.TracingConfiguration `json:",inline"`
}

const (
	fileGroup = "apiserver.config.k8s.io"
	fileKind  = "TracingConfiguration"
)

// fileVersions are the versions that kube-apiserver reads; they do not differ.
var fileVersions = [...]string{fileGroup + "/v1", fileGroup + "/v1beta1", fileGroup + "/v1alpha1"}

// Load reads the endpoint and the sampling rate of spans. Errors name the file and the
// field.
func Load(path string) (*tracingv1.TracingConfiguration, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the tracing configuration: %w", err)
	}
	var f file
	if err := yaml.UnmarshalStrict(text, &f); err != nil {
		return nil, fmt.Errorf("tracing configuration %s: %w", path, err)
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("tracing configuration %s: %w", path, err)
	}
	return &f.TracingConfiguration, nil
}

func (f *file) check() error {
	known := f.APIVersion == ""
	for _, v := range fileVersions {
		known = known || f.APIVersion == v
	}
	switch {
	case !known:
		return fmt.Errorf("apiVersion %q: must be one of %v", f.APIVersion, fileVersions)
	case f.Kind != "" && f.Kind != fileKind:
		return fmt.Errorf("kind %q: must be %s", f.Kind, fileKind)
	case f.SamplingRatePerMillion == nil || *f.SamplingRatePerMillion == 0:
		return errors.New("samplingRatePerMillion: must be set, from 1 to 1000000 (every attempt): no other component starts a pod's trace")
	}
	return tracingv1.ValidateTracingConfiguration(&f.TracingConfiguration, nil, nil).ToAggregate()
}
