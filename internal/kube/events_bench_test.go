package kube

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/berth-scheduler/berth/internal/model/report"
)

// BenchmarkRecord writes an event, including the server: creates it, and patches its
// series.
func BenchmarkRecord(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	writer, err := NewWriter(connect(b, ClientConfig{Master: server.URL}), false)
	if err != nil {
		b.Fatal(err)
	}
	for _, way := range []struct {
		name  string
		write func(context.Context, *report.Series) error
		count int
	}{{"Create", writer.Record, 1}, {"Repeat", writer.Repeat, 2}} {
		b.Run(way.name, func(b *testing.B) {
			event := seriesAbout(1, way.count)
			b.ReportAllocs()
			for b.Loop() {
				if err := way.write(b.Context(), event); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
