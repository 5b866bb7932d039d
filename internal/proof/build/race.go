//go:build race

package build

// Raced is set under the race detector, under which random clusters and simulations take many times as long. What their seeds explore is the same with and without
// it, so a few are enough to find races; a package that asks for it is tested both ways by `make unit`.
const Raced = true
