// Package allocator runs the structured allocator of k8s.io/dynamic-resource-allocation.
//
// It takes claims, a node with the slices that it can use, classes, and the allocated
// devices. It returns an allocation for each claim, or that none exists, or an error. It
// also counts the devices of a class that a node can use (count.go). It owns the cache of
// compiled CEL expressions, and searches that continue in a later round. It never
// remembers an allocation. Random identifiers of shares are replaced by identifiers
// derived from the claim, so decisions can be repeated.
//
// The library does not count its work, and a search can be exponential. Berth counts the
// library's calls of its context and its logger (search.go). A search that exceeds the
// rest of the round's budget is abandoned. The next round runs it as a coroutine on a
// copy of the allocated devices, paused at the end of each budget. filterTimeout uses the
// same units and no clock, so a timed-out search is repeatable and its result can be
// cached.
package allocator
