// Package surface compares what an operator sees of Berth with kube-scheduler's: flags, the default configuration, metrics and the
// responses of endpoints.
//
// It holds only tests. They run both programs on a development cluster and compare; every difference is listed here with its reason, and a
// listed difference that no longer exists fails too.
package surface
