package server

import (
	"errors"
	"net/http"

	"k8s.io/apiserver/pkg/server/healthz"
)

// Synced is the check that fails until the channel is closed: until the first lists have been read.
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

// WhileLeading passes requests on while the channel is closed, and otherwise answers with an empty response: what concerns the whole
// cluster is served by one replica.
func WhileLeading(leading <-chan struct{}, handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-leading:
			handler.ServeHTTP(w, r)
		default:
		}
	})
}
