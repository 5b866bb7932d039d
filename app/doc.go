// Package app is the scheduler as a command, for this repository's own binary and for people who build a binary of their own.
//
// It takes flags and a configuration file; it gives a cobra command that runs the scheduler until a signal stops it. It owns the
// process: signals, logging, the order in which the parts start and stop. It never decides about pods.
package app
