// Package surface holds what an operator sees of Berth against kube-scheduler's: flags, the default configuration, metrics and the answers of
// endpoints.
//
// It is tests only. They run both programs, beside each other on a development cluster, and compare; every difference is listed here with its
// reason, and one that no longer exists fails too.
package surface
