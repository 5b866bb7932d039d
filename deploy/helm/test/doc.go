// Package test tests the Helm chart and the kustomize manifests. The tests render them,
// and install, upgrade and remove a release in a development cluster. It is a separate
// module, so the scheduler's go.mod does not need Helm. It is part of no binary.
package test
