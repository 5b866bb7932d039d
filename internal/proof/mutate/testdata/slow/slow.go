// Package slow has a fault that its tests find, and tests that take long.
package slow

// IsMore says whether a is more than b.
func IsMore(a, b int) bool { return a > b }
