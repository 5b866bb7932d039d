package framework_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"

	public "github.com/berth-scheduler/berth/framework"
	"github.com/berth-scheduler/berth/internal/external/extender"
	"github.com/berth-scheduler/berth/internal/external/framework"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// answers are the responses of these tests' extender, by verb.
var answers = map[string]string{
	"/filter":     `{"nodenames": ["b"], "failedNodes": {"a": "too loud"}, "failedAndUnresolvableNodes": {"c": "no such disk"}}`,
	"/prioritize": `[{"host": "b", "score": 7}, {"host": "unheard-of", "score": 3}]`,
	"/preempt":    `{"nodeNameToMetaVictims": {"a": {"pods": [{"uid": "old"}], "numPDBViolations": 2}}}`,
	"/bind":       `{"error": "no lock"}`,
}

// extendersOf returns two extenders that are called over HTTP and give these answers. The
// first has all verbs, the second none.
func extendersOf(t *testing.T) []plugin.Extender {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, answers[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	set, err := extender.NewSet([]configv1.Extender{
		{URLPrefix: server.URL, FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt", BindVerb: "bind", Weight: 3, NodeCacheCapable: true},
		{URLPrefix: server.URL},
	}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set.Extenders()
}

// nodesWith are NodeInfos by name. Lists are not used.
type nodesWith map[string]fwk.NodeInfo

func (n nodesWith) Get(name string) (fwk.NodeInfo, error) {
	if n[name] == nil {
		return nil, fmt.Errorf("nodeinfo not found for node name %q", name)
	}
	return n[name], nil
}
func (n nodesWith) List() ([]fwk.NodeInfo, error)                     { return nil, nil }
func (n nodesWith) HavePodsWithAffinityList() ([]fwk.NodeInfo, error) { return nil, nil }
func (n nodesWith) HavePodsWithRequiredAntiAffinityList() ([]fwk.NodeInfo, error) {
	return nil, nil
}
func (n nodesWith) HavePodsWithRequiredNonHostScopedAntiAffinityList() ([]fwk.NodeInfo, error) {
	return nil, nil
}

// TestHand calls an extender as plugins do, through the Handle's list.
func TestHand(t *testing.T) {
	all := framework.Hand(extendersOf(t), nil)
	if len(all) != 2 {
		t.Fatalf("%d extenders, want 2", len(all))
	}
	full, none := all[0], all[1]
	pod := podOf("pod", "1").Obj()
	byName := nodesWith{}
	var nodes []fwk.NodeInfo
	for _, name := range []string{"a", "b", "c"} {
		var on []*v1.Pod
		if name == "a" {
			on = []*v1.Pod{podOf("old", "1").Obj()}
		}
		n := public.NewNodeInfo(on...)
		n.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		byName[name], nodes = n, append(nodes, n)
	}

	for _, test := range []struct {
		x    fwk.Extender
		want string
	}{{full, "true true true true false true"}, {none, "false false false false false true"}} {
		x := test.x
		if got := fmt.Sprint(x.IsFilter(), x.IsPrioritizer(), x.SupportsPreemption(), x.IsBinder(), x.IsIgnorable(), x.IsInterested(pod)); got != test.want {
			t.Errorf("the extender says of itself %s, want %s", got, test.want)
		}
	}

	passed, failed, unresolvable, err := full.Filter(pod, nodes)
	if err != nil || len(passed) != 1 || passed[0] != nodes[1] || failed["a"] != "too loud" || unresolvable["c"] != "no such disk" {
		t.Errorf("filtered: %v, %v, %v, %v", passed, failed, unresolvable, err)
	}
	if passed, _, _, err := none.Filter(pod, nodes); err != nil || len(passed) != 3 {
		t.Errorf("filtered by one that does not: %v, %v", passed, err)
	}

	// Plugins compute totals as kube-scheduler does: score times weight, on the scale of
	// node scores.
	scores, weight, err := full.Prioritize(pod, nodes)
	if err != nil || len(*scores) != 1 || (*scores)[0].Host != "b" || (*scores)[0].Score*weight != 7*3 {
		t.Errorf("rated: %v with weight %d, %v; want b with 21", scores, weight, err)
	}
	if scores, weight, err := none.Prioritize(pod, nodes); err != nil || len(*scores) != 0 || weight != 0 {
		t.Errorf("rated by one that does not: %v with weight %d, %v", scores, weight, err)
	}

	victims := map[string]*extenderv1.Victims{"a": {Pods: []*v1.Pod{podOf("old", "1").Obj()}}, "b": {}}
	left, err := full.ProcessPreemption(pod, victims, byName)
	if err != nil || len(left) != 1 || len(left["a"].Pods) != 1 || left["a"].Pods[0] != nodes[0].GetPods()[0].GetPod() || left["a"].NumPDBViolations != 2 {
		t.Errorf("candidates left: %v, %v", left, err)
	}
	other := public.NewNodeInfo()
	other.SetNode(byName["a"].Node())
	if _, err := full.ProcessPreemption(pod, victims, nodesWith{"a": other}); err == nil || !strings.Contains(err.Error(), "claims to preempt pod (UID: old) on node: a, but") {
		t.Errorf("a victim that is not on its node: %v", err)
	}
	if _, err := full.ProcessPreemption(pod, victims, nodesWith{}); err == nil {
		t.Error("a node that does not exist is no error")
	}
	if err := full.Bind(&v1.Binding{ObjectMeta: pod.ObjectMeta, Target: v1.ObjectReference{Name: "a"}}); err == nil || !strings.Contains(err.Error(), "no lock") {
		t.Errorf("bound: %v", err)
	}
}
