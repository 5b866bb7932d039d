// Package dynamicresources is the plugin DynamicResources, which allocates devices to
// ResourceClaims.
//
// It takes the claims of a pod and the device stores of the state. It returns the
// feasible nodes, the allocations that a placement promises, and the writes that store
// them. Package allocator chooses the devices. Package devices holds slices, claims and
// allocations.
//
// # Retries
//
// kube-scheduler wakes every pod that waits for devices when a claim or slice changes.
// Berth keeps the requests of a rejected pod when it is parked
// (plugin.EnqueueExtensions, model.AskedHint), and pods with equal requests share a
// hint. Released devices or a new slice wake a pod only if a request could get a device
// of that pool by the CEL expressions of class and request (hintcache.go). The result is
// cached by the pool's content. If an expression names the driver literally, the index
// finds the pods without evaluating it.
//
// Unclear cases wake the pod: an expression that fails, a taint rule, alpha features that
// add attributes, and slices of any driver if a request is for all devices. Evaluation
// has a budget per pool and per event; exceeding it wakes the pod too. A costly hint
// counts as several in a round.
//
// Example: 10,000 pods wait for devices of another driver, while every second device of
// this driver is released. None of the 10,000 is retried. Other pods are placed at 1,747
// pods/s, compared with 1,768 without the waiting pods.
//
// # Writes
//
// The finalizer is written first. Allocation and reservation follow as one JSON patch,
// which tests that the claim has the finalizer and no other allocation. The answers are
// learned (package commit), so no device counts as free between the write and the watch
// event. A placement that fails removes its reservation. The allocation stays, as in
// kube-scheduler; PostFilter deallocates it if it later makes the pod unschedulable.
//
// # Extended resources
//
// If a node's device plugins offer none of an extended resource, devices of the class
// that provides it are used, and NodeResourcesFit leaves the resource to this plugin.
// Results are cached by the node's key and the delegated resources.
//
// The scheduler creates a claim owned by the pod by server-side apply. Each turn uses
// another name, so the request can be repeated. Undoing it deletes the claim. A claim
// left by an unfinished turn is deleted before another is created.
//
// If a profile scores such resources, devices count as capacity. Only for these pods, the
// needs of NodeResourcesFit and similar plugins depend on the state
// (plugin.Filter.Varying, plugin.Score.Varying).
//
// # Pod groups
//
// In a group's turn, a claim promised to one member counts as allocated for the next
// members. With DRAWorkloadResourceClaims, a claim that the PodGroup lists by the same
// name and source is reserved for the PodGroup, and stays so after a failed placement.
// Each member sends the same write; later ones find it stored.
//
// If members share a claim without that gate, one writes the allocation, and the others
// fail and are retried, as in kube-scheduler. The claim's name is read from the pod's
// status in both cases.
//
// For a rejected group, plugin.GroupFreeing releases an allocation that no other pod has
// reserved. If no member is placed, it can also release an allocation or a reservation of
// the group.
package dynamicresources
