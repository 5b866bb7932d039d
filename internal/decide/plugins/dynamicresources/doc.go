// Package dynamicresources is the plugin DynamicResources: it allocates devices to
// ResourceClaims.
//
// It takes the claims of a pod and the stores of devices in the state. It returns the
// feasible nodes, the allocations that a placement promises, and the writes that store
// them. Package allocator chooses the devices, package devices keeps slices, claims and
// allocations.
//
// # Retries
//
// kube-scheduler wakes every pod that waits for devices when a claim or slice changes.
// Here the requests of a rejected pod are kept when it is parked
// (plugin.StateEnqueueExtensions, model.AskedHint), and pods with equal requests share a
// hint. Released devices or a new slice wake a pod only if one of its requests could get
// a device of that pool, by the CEL expressions of class and request (asked.go). The
// result is remembered by the pool's content. If an expression names the driver
// literally, the index finds the pods without evaluating it. Unclear cases wake the pod:
// an expression that fails, a taint rule, alpha features that add attributes, and for
// requests of all devices, slices of any driver. Evaluation has a budget per pool and per
// event; exceeding it wakes the pod too. A costly hint counts as several in a round.
//
// Example: 10,000 pods wait for devices of another driver, while each second devices of
// this driver are released. None of the 10,000 is tried again, and other pods are placed
// at 1,747 pods/s instead of 1,768 without them.
//
// # Writes
//
// The finalizer is written first. Allocation and reservation follow as one JSON patch,
// which tests that the claim has the finalizer and no other allocation. The answers are
// learned (package commit), so no device counts as free between the write and the watch.
// A placement that fails takes its reservation back. The allocation stays, as in
// kube-scheduler, where PostFilter deallocates it once it is in the way.
//
// # Extended resources
//
// On nodes whose device plugins offer none of an extended resource, devices of the class
// that stands for it are used, and NodeResourcesFit leaves the resource to this plugin.
// Results are remembered by the node's key and the delegated resources. The scheduler
// creates the claim, owned by the pod, by server-side apply under a name that no other
// turn uses, so the request can be repeated. It is undone by deletion. A claim that an
// unfinished turn left behind is deleted before another is created. If a profile scores
// such resources, devices count as capacity. For these pods alone the needs of
// NodeResourcesFit and similar plugins depend on the state (plugin.VaryingFilter,
// plugin.VaryingScore).
//
// # Pod groups
//
// In a group's turn, a claim promised to one member counts as allocated for the next
// members. With DRAWorkloadResourceClaims, a claim that the PodGroup lists by the same
// name and source is reserved for the PodGroup, also after a failed placement. Each
// member sends the same write; later ones find it stored. If members share a claim
// without that gate, one writes the allocation, and the others fail and are tried again,
// as in kube-scheduler. The claim's name is read from the pod's status in both cases. For
// a rejected group, plugin.GroupFreeing releases an allocation that no other pod has
// reserved, an allocation of the group if no member is on a node, or the group's
// reservation.
package dynamicresources
