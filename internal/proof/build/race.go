//go:build race

package build

// Raced reports whether the race detector is on. Random clusters and simulations are many
// times slower under it. Their seeds explore the same paths with and without it, so a few
// seeds suffice to find races. `make unit` tests packages that use Raced in both ways.
const Raced = true
