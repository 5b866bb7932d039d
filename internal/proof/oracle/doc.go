// Package oracle is a slow, obvious scheduler that the engine must agree with in tests.
//
// It takes a cluster as plain API objects, one pending pod and a profile. It returns the
// verdict and the score of every node, and the nodes that tie for first place. If no node
// is feasible, it returns the victims. It also returns the exact text of the
// FailedScheduling event, as kube-scheduler 1.37 writes it. It owns nothing: every result
// is computed from the objects alone. Nothing is kept between or within calls, so nothing
// has to be invalidated.
//
// It never imports the engine, the plugins, the state or the model, and never calls
// k8s.io/component-helpers, which the product calls: two implementations that share a
// helper share its mistakes. Only the translation of in-tree volumes to CSI is the
// library's, because its rules are defined there. The oracle never changes an object it
// was given.
//
// It leaves out sampling of nodes, extenders and dynamic resources. Feature gates have
// their 1.37 defaults.
package oracle
