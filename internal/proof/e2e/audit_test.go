package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// auditLog is the API server's audit log of all tests, with the requests that
// testdata/audit.yaml selects.
var auditLog string

// audited is an answered request.
type audited struct {
	Verb      string `json:"verb"`
	URI       string `json:"requestURI"`
	User      struct{ Username string }
	ObjectRef struct {
		Resource, Subresource, Namespace, Name, UID string
	} `json:"objectRef"`
	ResponseStatus           struct{ Code int }
	RequestObject            json.RawMessage `json:"requestObject"`
	ResponseObject           json.RawMessage `json:"responseObject"`
	RequestReceivedTimestamp time.Time       `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time       `json:"stageTimestamp"`
}

// stored reports whether the request succeeded.
func (a *audited) stored() bool { return a.ResponseStatus.Code >= 200 && a.ResponseStatus.Code < 300 }

// what returns the kind of request: verb, resource and subresource.
func (a *audited) what() string {
	return strings.TrimSuffix(a.Verb+" "+a.ObjectRef.Resource+"/"+a.ObjectRef.Subresource, "/")
}

// audit calls do for each request about objects of the test's namespace, or about
// cluster-scoped objects, in the order of the responses.
func (w *world) audit(do func(a *audited)) {
	w.Helper()
	file, err := os.Open(auditLog)
	w.must(err)
	defer file.Close()
	lines := bufio.NewReaderSize(file, 1<<20)
	ours := fmt.Appendf(nil, `"namespace":%q`, w.namespace)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // the last line may be incomplete
		}
		if !bytes.Contains(line, ours) && !bytes.Contains(line, []byte(`"resource":"persistentvolumes"`)) {
			continue
		}
		a := &audited{}
		w.must(json.Unmarshal(line, a))
		if a.ObjectRef.Namespace == "" || a.ObjectRef.Namespace == w.namespace {
			do(a)
		}
	}
}

// eachPodBoundOnce checks that each pod on a node was bound once, by the API server's
// audit log, and has one Scheduled event.
//
// killed is zero, or a time after which no request of a killed process, Berth or the API
// server, arrived. The log may lack the answers to earlier bindings, and their events may
// be missing.
func (w *world) eachPodBoundOnce(killed time.Time) {
	w.Helper()
	bound, told := map[types.UID]int{}, map[types.UID]bool{}
	w.audit(func(a *audited) {
		if a.what() != "create pods/binding" || !a.stored() || strings.Contains(a.URI, "dryRun") {
			return
		}
		var binding v1.Binding
		w.must(json.Unmarshal(a.RequestObject, &binding))
		if binding.UID == "" {
			w.Errorf("pod %s was bound without its UID: it could have been another of that name", a.ObjectRef.Name)
		}
		bound[binding.UID]++
		told[binding.UID] = a.RequestReceivedTimestamp.After(killed)
	})
	placed := 0
	for _, p := range w.pods() {
		if p.Spec.NodeName == "" {
			continue
		}
		placed++
		if n := bound[p.UID]; n > 1 || n == 0 && killed.IsZero() {
			w.Errorf("pod %s was bound %d times", p.Name, n)
		}
	}
	if placed == 0 {
		w.Error("no pod has a node")
	}
	events := map[types.UID]int{}
	w.await("there is an event about each binding", func() bool {
		clear(events)
		list, err := w.client.EventsV1().Events(w.namespace).List(w.ctx, metav1.ListOptions{})
		w.must(err)
		for _, e := range list.Items {
			if e.Reason == "Scheduled" {
				events[e.Regarding.UID]++
			}
		}
		for uid, wanted := range told {
			if wanted && events[uid] == 0 {
				return false
			}
		}
		return len(events) > 0
	})
	for uid, n := range events {
		if n > 1 {
			w.Errorf("pod %s was scheduled %d times, say events", uid, n)
		}
	}
	w.Logf("%d pods have a node, of %d the log has the binding, %d have an event", placed, len(bound), len(events))
}

// awaitSync waits until a process of Berth has synced, and returns the time.
func (w *world) awaitSync(p *rig.Process) time.Time {
	w.Helper()
	w.await("Berth knows the cluster", func() bool { return strings.Contains(p.Log(), "Cluster is known") })
	return time.Now()
}
