// Package surface compares Berth's operator interface with kube-scheduler's: flags, the
// default configuration, metrics and endpoint responses.
//
// It holds only tests. They run both programs on a development cluster. Every difference
// is listed here with its reason. A listed difference that no longer exists fails too.
package surface
