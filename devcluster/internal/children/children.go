// Package children says how a child process of devcluster is told which component to be.
//
// It takes nothing and gives names. It stands apart so that whoever starts children need not be built with what they run: the
// Kubernetes components are most of the program.
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
