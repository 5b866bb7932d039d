package kube

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/report"
)

// BenchmarkRecord compares the two ways to write an event, including the server: at once, and through the broadcaster.
func BenchmarkRecord(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	for _, way := range []string{v1.EventTypeNormal, v1.EventTypeWarning} {
		b.Run(way, func(b *testing.B) {
			client := connect(b, ClientConfig{Master: server.URL})
			writer, err := NewWriter(client, []string{"default-scheduler"})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := range b.N {
				event := report.Event{Type: way, Reason: "Reason", Action: "Action", Note: "Successfully assigned ns/p to n"}
				if err := writer.Record(b.Context(), numbered(i), event); err != nil {
					b.Fatal(err)
				}
			}
			writer.Close(b.Context())
		})
	}
}
