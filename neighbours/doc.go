// Package neighbours runs programs that work beside a scheduler, each with kube-scheduler
// and with Berth: descheduler, Kueue and Karpenter.
//
// It takes the folder of built binaries: a neighbour's own manager, both schedulers and
// the development cluster. A test starts a cluster for each scheduler, installs the
// neighbour's definitions from the files of its module, starts its manager, and plays the
// same scenes. It compares the notes of each scene: bound pods, conditions, evictions and
// nodes that were added. It owns all processes that it starts.
//
// Names of nodes are never compared, because ties are each scheduler's to break. A
// neighbour is pinned by a module of its own in a folder of its name, so it is built with
// the libraries that its authors tested.
package neighbours
