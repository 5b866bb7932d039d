package config

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"
)

const kind = "KubeSchedulerConfiguration"

// newScheme returns a scheme with the types of the configuration and of built-in plugins'
// arguments.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := configv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the types of the scheduler configuration: %w", err)
	}
	return scheme, nil
}

// decode decodes a configuration and typed arguments, and rejects unknown and duplicate
// fields. It sets no defaults: a program that imports kube-scheduler's packages has
// registered defaults of the whole configuration in the scheme.
func decode(data []byte, scheme *runtime.Scheme) (*configv1.KubeSchedulerConfiguration, error) {
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	decoder := versioning.NewCodec(nil, strict, runtime.UnsafeObjectConvertor(scheme), scheme, scheme, nil, nil, configv1.SchemeGroupVersion, scheme.Name())
	object, _, err := decoder.Decode(data, nil, nil)
	source, ok := object.(*configv1.KubeSchedulerConfiguration)
	switch {
	case runtime.IsMissingKind(err), runtime.IsMissingVersion(err), runtime.IsNotRegisteredError(err), err == nil && !ok:
		return nil, errOther(data)
	case err != nil:
		return nil, err
	}
	return source, nil
}

// furtherDocuments returns the number of YAML documents with content after the first.
func furtherDocuments(data []byte) int {
	count := 0
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		document, err := reader.Read()
		if err != nil {
			return max(0, count-1)
		}
		var content any
		if yaml.Unmarshal(document, &content) != nil || content != nil {
			count++
		}
	}
}

// errOther is the error for a file of another kind, or without a kind. The decoder's own
// text would contain the whole file, or the line of code that made the scheme.
func errOther(data []byte) error {
	var is metav1.TypeMeta
	if err := yaml.Unmarshal(data, &is); err != nil {
		return err
	}
	return fmt.Errorf("couldn't decode as %s, got apiVersion %q, kind %q; must be apiVersion: %s, kind: %s",
		kind, is.APIVersion, is.Kind, configv1.SchemeGroupVersion, kind)
}

// Write writes the configuration as YAML, as kube-scheduler's --write-config-to does, but
// without secrets: see Shown.
func (c *Config) Write(w io.Writer) error {
	known := serializer.NewCodecFactory(c.known.scheme, serializer.EnableStrict)
	info, ok := runtime.SerializerInfoForMediaType(known.SupportedMediaTypes(), runtime.ContentTypeYAML)
	if !ok {
		return fmt.Errorf("write the scheduler configuration: no encoder for %s", runtime.ContentTypeYAML)
	}
	source := c.Shown() // a copy, because encoding stores the encoded arguments in the object
	if err := known.EncoderForVersion(info.Serializer, configv1.SchemeGroupVersion).Encode(source, w); err != nil {
		return fmt.Errorf("write the scheduler configuration: %w", err)
	}
	return nil
}
