// Package devices holds ResourceSlices, device classes, claims and their allocation.
//
// It takes compiled ResourceSlices, DeviceTaintRules, DeviceClasses and ResourceClaims,
// node names by slot, and the promises of placements. It returns classes and claims by
// name, and the slices that a node can use. It also returns the allocation state in the
// form that the allocator of k8s.io/dynamic-resource-allocation reads, and a key per node
// that is equal for nodes with equal devices.
//
// It owns its indexes and reports changed slots to the state. It never decides: plugins
// do. The goroutine that owns the state owns the Store; others may read while it is not
// written. An API server without these kinds delays no start (kube/served.go).
//
// # Keys
//
// The allocator evaluates one node at a time, which is too slow for every node. A node's
// key is a hash of the devices in its pools, without the names of node, pools and
// devices, plus their allocation by position. The allocator's results are equal on nodes
// of equal keys, so they are cached by key. Devices with attributes of their own, such as
// serial numbers, cost one call per node at first sight of a need.
//
// Example: 5,000 nodes with eight equal GPUs each, and a pod per GPU. All free nodes have
// one key. A pod takes a GPU on n7, so n7 gets the key of all nodes with one GPU taken at
// that position. The allocator is called twice per pod: for the node that the previous
// pod changed, and for the chosen node. A decision takes 87 µs.
//
// # Local and wide pools
//
// A pool whose slices are all for one node is local, and its changes are journalled on
// that node (aspect Devices). All others are wide, such as network-attached devices; a
// change would journal thousands of nodes. So nodes that are alike otherwise and use the
// same wide pools are listed together (wide.go). A column finds the changed lists by
// versions. It evaluates one node per list, and the rest only if the result changed
// (plugin.Following). Remembered rejections are decided again (state.Versions.Devices),
// and scores follow the same way.
//
// The pool's size still matters, since the allocator reads all slices of a pool on each
// call: 53 ms for 10,000 devices in one pool, 0.85 ms for pools of 32.
//
// Unpublished devices keep their counters while allocated (unpublished.go). The allocator
// counts published devices only, so it gets counter sets that are smaller by that amount.
//
// # Claims and promises
//
// Needs name no claim: pods of a template share the requests and class selectors of their
// claims, and so their columns. An allocated claim's need is the set of nodes where the
// allocation is usable. Errors name claims, so their text is made in the pod's turn.
//
// A promise is the allocation that a claim will get. It counts until a version of the
// claim shows an allocation, whoever made it. It counts after the pod is gone too, until
// the binding has ended, because the write may be in flight. A broken promise raises the
// event that its devices are free. In a pod group a promise has several holders and ends
// with the last.
package devices
