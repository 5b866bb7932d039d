package kube

import (
	"encoding/json"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// The sync does not wait for device kinds that the API server does not serve. If
// discovery fails, all are assumed to be served.
func TestServed(t *testing.T) {
	devices := []model.Kind{model.ResourceClaimKind, model.DeviceClassKind, model.DeviceTaintRuleKind}
	for _, row := range []struct {
		name   string
		status int
		served []string
		want   int
	}{
		{"all", 200, []string{"resourceclaims", "resourceclaims/status", "deviceclasses", "devicetaintrules"}, 3},
		{"no rules", 200, []string{"resourceclaims", "deviceclasses"}, 2},
		{"none", 404, nil, 0},
		{"no answer", 500, nil, 3},
	} {
		_, client := inMemory(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/apis/resource.k8s.io/v1" {
				t.Errorf("%s: asked for %s", row.name, r.URL.Path)
			}
			if row.status != 200 {
				w.WriteHeader(row.status)
				return
			}
			list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "resource.k8s.io/v1"}
			for _, name := range row.served {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(&list) // the client may be gone
		}), ClientConfig{ContentType: "application/json"})
		w, err := NewWatch(client, noSink{}, append(devices, model.PodKind), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(w.synced) != 1 || len(w.optional) != len(devices) {
			t.Errorf("%s: %d kinds are waited for in any case, %d may not be served", row.name, len(w.synced), len(w.optional))
		}
		if got := w.served(t.Context()); len(got) != row.want {
			t.Errorf("%s: %d kinds are waited for, want %d", row.name, len(got), row.want)
		}
	}
}
