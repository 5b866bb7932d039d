// Package devicefit explains why a node has no devices for the claims of a pod.
//
// It takes a node with its slices, the allocations, and claims without an allocation. It
// returns, for each request, how many of the node's devices each check refuses, and the
// device that passes the most checks, with its shortage. It also lists edits of a claim
// with which that device would pass. It owns a cache of compiled CEL expressions, and
// reads neither a clock nor the network.
//
// The allocator of k8s.io/dynamic-resource-allocation only reports that it found nothing.
// So the checks here repeat its rules one by one, in this order:
//
//	published      the newest generation of the device's pool is complete and valid
//	class          the selectors of the DeviceClass
//	selector       the selectors of the request
//	taint          the tolerations of the request
//	capacity       the capacity that the request needs
//	allocation     no other claim has the device
//	counters       the counters that the device shares with others
//
// Constraints between devices come last. An explanation may miss the cause where several
// requests compete for the same devices, and says so. It never decides: the engine does,
// and package advice tries each edit before it suggests it.
//
// # Selectors
//
// A selector that is false is split at its top-level "&&". The first part that is false
// is printed with the values that it reads. CEL compares values of different types
// without an error, as unequal, so a part that compares an attribute with a literal of
// another type is false for each device. Example: the driver publishes the attribute
// index as int 0, and the selector is
//
//	device.attributes["gpu.example.com"].index == "0"
//
// The explanation is: index is the int 0, not a string.
package devicefit
