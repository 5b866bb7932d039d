package history

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// BenchmarkRound decides about pods one after the other, with and without a history: pods
// that are placed at once, and pods that are rejected again and again.
func BenchmarkRound(b *testing.B) {
	nodes := build.Sized(5000)
	for _, kept := range []bool{false, true} {
		for _, what := range []string{"placed", "rejected"} {
			b.Run(fmt.Sprintf("%s/history=%t", what, kept), func(b *testing.B) {
				var h *History
				if kept {
					h = newHistory(b, 0)
				}
				s := newScheduler(b, h)
				for i := range nodes {
					s.changes.Set(build.Node(fmt.Sprintf("node-%05d", i), build.Allocatable("cpu=64 memory=256Gi pods=110")))
				}
				request := "cpu=100m memory=100Mi"
				if what == "rejected" {
					request = "cpu=100 memory=100Mi"
				}
				pods := make([]*v1.Pod, b.N)
				for i := range pods {
					pods[i] = build.Pod(build.Named(fmt.Sprintf("pod-%07d", i)), build.Container(request), build.Controller("apps/v1", "ReplicaSet", "web"))
				}
				s.rest()
				for _, pod := range pods {
					s.changes.Set(pod)
				}
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					s.now = s.now.Add(10 * time.Microsecond)
					s.loop.Once(s.now)
				}
				if b.StopTimer(); kept {
					c := h.Counts()
					b.ReportMetric(float64(c.Details)/float64(b.N), "details/op")
					b.ReportMetric(float64(c.Recording.Nanoseconds())/float64(b.N), "recording-ns/op")
				}
			})
		}
	}
}

// BenchmarkNote notes decisions without details: about pods that are placed at once,
// about other pods for the first time, and about 20,000 waiting pods over and over.
func BenchmarkNote(b *testing.B) {
	for _, what := range []string{"placed", "first", "again"} {
		b.Run(what, func(b *testing.B) {
			const pods = 20_000
			rounds := make([]loop.Round, pods)
			for i := range rounds {
				d := decision(fmt.Sprintf("pod-%07d", i), 1, what == "placed")
				rounds[i] = loop.Round{Attempt: &plan.Attempt{Members: []plan.Decision{d}, Outcome: d.Outcome}}
			}
			bytes := 0
			// small enough that each pod is dropped before its next attempt
			if what == "first" {
				bytes = 4 << 20
			}
			h := newHistory(b, bytes)
			for i := range rounds {
				h.Round(&rounds[i])
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				h.budget.notes = maxSaved
				h.Round(&rounds[i%pods])
			}
		})
	}
}

// BenchmarkOf searches for a pod without a placement, among the largest number of
// placements for a size of the memory.
func BenchmarkOf(b *testing.B) {
	for _, mib := range []int{DefaultBytes >> 20, MaxBytes >> 20} {
		b.Run(fmt.Sprintf("%dMiB", mib), func(b *testing.B) {
			h := newHistory(b, mib<<20)
			for i := range h.placed.most {
				d := decision(fmt.Sprintf("pod-%07d", i), 1, true)
				h.placed.add(&d)
			}
			none := model.PodKey{Namespace: "default", Name: "none"}
			b.ResetTimer()
			for range b.N {
				if h.placed.of(none) != nil {
					b.Fatal("found")
				}
			}
		})
	}
}
