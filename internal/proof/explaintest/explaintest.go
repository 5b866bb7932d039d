// Package explaintest builds snapshots of clusters for tests, and compares their
// explanations.
//
// It takes API objects. It returns an explain.Snapshot, and all of its explanations as
// text. It owns nothing, and is for tests only.
package explaintest

import (
	"encoding/json"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
)

// Snapshot returns a cluster with the default configuration.
func Snapshot(t testing.TB, nodes []*v1.Node, pods []*v1.Pod, others ...runtime.Object) *explain.Snapshot {
	t.Helper()
	return SnapshotWith(t, nil, nodes, pods, others...)
}

// SnapshotWith returns a cluster with the default configuration and the given feature
// gates.
func SnapshotWith(t testing.TB, gates map[string]bool, nodes []*v1.Node, pods []*v1.Pod, others ...runtime.Object) *explain.Snapshot {
	t.Helper()
	on, err := feature.With(gates)
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := config.Read(config.Request{Gates: on})
	if err != nil {
		t.Fatal(err)
	}
	s, err := explain.New(scheduler, nodes, pods, others, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Answers returns the JSON of every pending pod's explanation, by namespace/name.
func Answers(t testing.TB, s *explain.Snapshot) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pod := range s.Pending() {
		a, err := s.Of(pod)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		all[a.Pod] = string(text)
	}
	return all
}
