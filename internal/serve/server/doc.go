// Package server serves a scheduler's HTTPS endpoints: health, metrics and configuration.
//
// It takes a listener with its certificate, an authenticator, an authorizer, health checks, and what the pages show; it gives the endpoints
// of kube-scheduler, with the same paths and responses, from the libraries that kube-scheduler uses. It owns the endpoints and the
// connections. It never reads the scheduler itself: the content comes from registries and handlers that it is given.
package server
