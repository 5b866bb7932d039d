package compat

import (
	"errors"
	"fmt"

	fwk "k8s.io/kube-scheduler/framework"
	kube "k8s.io/kubernetes/pkg/scheduler/framework"
)

// handle is the Handle for plugins that assert a Framework. It has the methods of the Handle.
// The methods that a Framework has beyond them panic, and the panic names the method: the
// plugin's turn fails with that text, or the start if its factory calls it.
type handle struct {
	fwk.Handle
	unsupported
}

var _ kube.Framework = (*handle)(nil)

// unsupported has the methods that only a Framework has.
type unsupported struct{}

// errFramework is the panic of such a method.
func errFramework(method string) error {
	return fmt.Errorf("%s of the Framework: %w", method, errors.ErrUnsupported)
}
