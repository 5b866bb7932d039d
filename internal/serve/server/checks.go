package server

import (
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/server/healthz"
)

// Synced returns the check that fails until the channel is closed, after the first lists
// were read.
func Synced(synced <-chan struct{}) healthz.HealthChecker {
	return healthz.NamedCheck("sched-handler-sync", func(*http.Request) error {
		select {
		case <-synced:
			return nil
		default:
			return errors.New("handlers are not fully synchronized")
		}
	})
}

// WhileLeading passes requests on once the channel is closed. Before that it answers with
// an empty response, because only one replica serves data about the whole cluster.
func WhileLeading(leading <-chan struct{}, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-leading:
			handler.ServeHTTP(w, r)
		default:
		}
	})
}
