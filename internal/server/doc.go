// Package server serves what can be asked of a scheduler over HTTPS: whether it is well, what it counts, how it is set up.
//
// It takes a listener with its certificate, who may ask what, health checks, and what is shown; it gives the endpoints of
// kube-scheduler, with its paths and its answers, from the libraries that kube-scheduler has them from. It owns the endpoints and
// the connections. It never looks into the scheduler itself: what is shown comes from registries and handlers that it is given.
package server
