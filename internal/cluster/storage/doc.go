// Package storage holds volumes: storage objects, their use by node, and free supply.
//
// It takes compiled claims, volumes, classes, CSINodes, drivers, capacities and
// attachments; in-tree volumes are translated to CSI in package ingest. It also takes the
// labels of nodes by slot, pods as they are added to nodes and removed, and the objects
// that placements hold. It returns objects by name, the volumes in use on a node, and the
// free volumes and capacity of a class by node.
//
// It owns its indexes and reports changed slots to the state. It never decides: plugins
// do. The goroutine that owns the state owns the Store; others may read while it is not
// written.
//
// # In use
//
// Use is counted by node: the distinct volumes of each driver, from the claims of its
// pods and from attachments, and inline disks. A claim that becomes bound, or a volume
// that appears, is counted again on the nodes whose pods use it and nowhere else.
//
// # Free
//
// Free volumes that differ only in name, size and labels form a group, sorted by size. A
// reach is the set of nodes on which a group, or a capacity, can be used. Reaches are
// indexed by a required label, so a node's labels or a new local volume are matched
// against few. Where kube-scheduler's result depends on map order, the first by size and
// name is taken.
//
// A change in a narrow reach is journalled on its nodes, in the aspect Supply. A change
// in a wide reach would journal thousands of nodes per placed pod. Instead a need
// contains the relevant part of wide groups: the smallest sizes that are large enough.
// Pods that take volumes out of a pool of equal volumes keep the same need.
//
// Example: 5,000 nodes with one local volume each. A pod takes the volume of n7: one
// reach with one node changes, and the journal gets (slot 7, Supply). Now 5,000 volumes
// of 10 GiB are reachable from every node. A pod takes one of them: the smallest large
// enough size is still 10 GiB, so no need and no column changes. A volume change costs
// 0.04 to 2.5 µs beside 50,000 claims.
//
// # Needs and promises
//
// Needs name no claim. Thousands of pods have a claim of their own, and would each need a
// column otherwise. A bound claim's need is its volume's node affinity or zones, or how
// many new volumes of a driver it attaches. An unbound claim's need is its requirements.
// Only objects that are shared, or meant for one claim, are named.
//
// Promises are holds of placements: a volume for a claim, or the node to provision for. A
// promise counts while the object has the version that was promised. A newer version
// shows the changes of others, as in kube-scheduler, where it replaces the assumed one.
// Completed writes stay when a placement fails. If a claim's annotation selected-node
// names a node that is gone, also from the API server, VolumeBinding's PostFilter removes
// the annotation (plan.Write.IfAbsent).
package storage
