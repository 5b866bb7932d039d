package compat

import (
	"errors"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"
)

// handle is the Handle for plugins that assert a Framework. The methods that only a
// Framework has panic with the method's name. The plugin's attempt fails with that text,
// or the start if its factory calls the method.
type handle struct {
	fwk.Handle
	unsupported
}

var _ kube.Framework = (*handle)(nil)

// unsupported has the methods that only a Framework has.
type unsupported struct{}

// errFramework is the value of the panic.
func errFramework(method string) error {
	return fmt.Errorf("%s of the Framework: %w", method, errors.ErrUnsupported)
}
