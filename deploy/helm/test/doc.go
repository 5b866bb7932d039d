// Package test has the tests of the Helm chart and of the manifests for kustomize: what they render, and a release that is installed, upgraded and removed in a development
// cluster. It is a module of its own so that the scheduler's go.mod does not need Helm. It never becomes part of a binary.
package test
