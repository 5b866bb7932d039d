package remote

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// object is an API object in JSON, with its kind.
type object struct{ runtime.Object }

// MarshalJSON writes the object.
func (o object) MarshalJSON() ([]byte, error) {
	kinds, _, err := scheme.Scheme.ObjectKinds(o.Object)
	if err != nil {
		return nil, fmt.Errorf("write a %T: %w", o.Object, err)
	}
	named := o.DeepCopyObject()
	named.GetObjectKind().SetGroupVersionKind(kinds[0])
	return json.Marshal(named)
}

// UnmarshalJSON reads the object, without defaults.
func (o *object) UnmarshalJSON(data []byte) error {
	read, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return fmt.Errorf("read an object: %w", err)
	}
	o.Object = read
	return nil
}
