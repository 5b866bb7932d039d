// Package e2e tests the built program devcluster: it starts, uses and stops it.
//
// It takes a built binary, and gives nothing but its tests.
package e2e
