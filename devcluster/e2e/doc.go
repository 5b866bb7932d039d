// Package e2e tests the built program devcluster: the tests start, use and stop it.
package e2e
