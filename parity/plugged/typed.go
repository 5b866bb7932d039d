package plugged

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// nodeZone is the Go type of the custom resource, as generated clients have one.
type nodeZone struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

// DeepCopyObject returns a copy.
func (z *nodeZone) DeepCopyObject() runtime.Object {
	copied := *z
	z.ObjectMeta.DeepCopyInto(&copied.ObjectMeta)
	return &copied
}

// tryZones creates a custom resource and reads it, with a client made like a generated
// one.
func tryZones(ctx context.Context, access *rest.Config, name string) error {
	scheme := runtime.NewScheme()
	version := ZonesResource.GroupVersion()
	scheme.AddKnownTypeWithName(version.WithKind("NodeZone"), &nodeZone{})
	metav1.AddToGroupVersion(scheme, version)
	config := rest.CopyConfig(access)
	config.GroupVersion, config.APIPath = &version, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return err
	}
	zone := &nodeZone{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := client.Post().Resource(ZonesResource.Resource).Body(zone).Do(ctx).Error(); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if err := client.Get().Resource(ZonesResource.Resource).Name(name).Do(ctx).Into(zone); err != nil {
		return fmt.Errorf("get: %w", err)
	}
	return nil
}
