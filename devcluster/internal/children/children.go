// Package children names the components that a devcluster child process can run.
//
// It is separate because the components are most of the program: code that starts
// children need not import them.
package children

// Command is the first argument of a child process; the component's name and flags
// follow.
const Command = "component"

// Names of the components.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Kwok              = "kwok"
)
