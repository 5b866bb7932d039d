// Package server serves a scheduler's HTTPS endpoints: health, metrics and configuration.
//
// It takes a listener with its certificate, an authenticator, an authorizer, health
// checks, and the content of the pages. It serves the endpoints of kube-scheduler, with
// the same paths and responses, through the libraries of kube-scheduler. It owns the
// endpoints and the connections. It never reads the scheduler: the content comes from
// registries and handlers that it is given.
package server
