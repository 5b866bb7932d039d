// Package children names the components that a child process of devcluster can run.
//
// It takes nothing and gives names. It is separate so that the code that starts children does not import the components: they are most of
// the program.
package children

// Command is the first argument of a child process; the component's name and flags follow.
const Command = "component"

// The names of the components.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Kwok              = "kwok"
)
