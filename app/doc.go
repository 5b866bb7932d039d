// Package app is the scheduler as a command, for Berth's own binary and for binaries with
// out-of-tree plugins.
//
// It takes flags and a configuration file, and returns a cobra command that runs the
// scheduler until a signal. It owns the process: signals, logging, and the order in which
// the parts start and stop. It never makes scheduling decisions.
package app
