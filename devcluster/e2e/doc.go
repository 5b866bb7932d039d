// Package e2e holds the tests of devcluster as its users see it: the built program, started, used and stopped.
//
// It takes a built binary, and gives nothing but its tests.
package e2e
