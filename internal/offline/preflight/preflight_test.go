package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// apiServer answers the requests of preflight, in JSON. It allows everything except
// denies, as "VERB RESOURCE/SUBRESOURCE", and serves everything except lacks.
type apiServer struct {
	minor        string
	denies       []string
	lacks        []string
	forbidsAsked bool // reviews of others' rights
	pods         []v1.Pod

	mu    sync.Mutex
	asked map[string]authorizationv1.SubjectAccessReviewSpec
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := func(code int, object any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(object)
	}
	review := func(a *authorizationv1.ResourceAttributes) bool {
		what := a.Verb + " " + a.Resource
		if a.Subresource != "" {
			what += "/" + a.Subresource
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.asked == nil {
			s.asked = map[string]authorizationv1.SubjectAccessReviewSpec{}
		}
		s.asked[what] = authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: a}
		return !slices.Contains(s.denies, what)
	}
	body, _ := io.ReadAll(r.Body)
	switch path := r.URL.Path; {
	case path == "/version":
		answer(http.StatusOK, map[string]string{"major": "1", "minor": s.minor, "gitVersion": "v1." + s.minor + ".1"})
	case strings.HasSuffix(path, "/selfsubjectaccessreviews"):
		var of authorizationv1.SelfSubjectAccessReview
		_ = json.Unmarshal(body, &of)
		of.Status.Allowed = review(of.Spec.ResourceAttributes)
		answer(http.StatusCreated, of)
	case strings.HasSuffix(path, "/subjectaccessreviews"):
		if s.forbidsAsked {
			answer(http.StatusForbidden, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "no"})
			return
		}
		var of authorizationv1.SubjectAccessReview
		_ = json.Unmarshal(body, &of)
		of.Status.Allowed = review(of.Spec.ResourceAttributes)
		s.mu.Lock()
		s.asked["subject"] = of.Spec
		s.mu.Unlock()
		answer(http.StatusCreated, of)
	case path == "/api/v1/namespaces/kube-system/pods":
		answer(http.StatusOK, v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: s.pods})
	default:
		list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}}
		for kind := range model.KindCount {
			resource := kinds.Get(model.Kind(kind)).Resource
			if strings.HasSuffix(path, "/"+resource.GroupVersion().String()) && !slices.Contains(s.lacks, resource.Resource) {
				list.APIResources = append(list.APIResources, metav1.APIResource{Name: resource.Resource})
			}
		}
		answer(http.StatusOK, list)
	}
}

// check runs the checks against the server.
func (s *apiServer) check(t *testing.T, r Request, text string, pods string) (*Report, []string) {
	t.Helper()
	if s.minor == "" {
		s.minor = "37"
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	r.Access = &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	gates, err := feature.With(r.Gates)
	if err != nil {
		t.Fatal(err)
	}
	request := config.Request{Gates: gates}
	if text != "" {
		r.File = filepath.Join(t.TempDir(), "scheduler.yaml")
		if err := os.WriteFile(r.File, []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		request.File = r.File
	}
	r.Scheduler, r.Mistake = config.Read(request)
	if r.Cluster, err = manifest.Decode("cluster.yaml", []byte(pods+"\n---\n{apiVersion: v1, kind: Node, metadata: {name: a}}")); err != nil {
		t.Fatal(err)
	}
	report, err := Run(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, row := range report.Rows {
		if row.Status != Pass {
			lines = append(lines, fmt.Sprintf("%s %s %s", row.Status, row.Check, row.Message))
		}
		if (row.Do == "") != (row.Status == Pass) {
			t.Errorf("what to do about %s %s (%s) is %q", row.Status, row.Check, row.Message, row.Do)
		}
	}
	return report, lines
}

// podNamed returns a pod with further fields in its spec.
func podNamed(name, more string) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {containers: [{name: c, image: i}]%s}}\n", name, more)
}

// asking returns a pod that requests one unit of an extended resource, on a node or
// pending.
func asking(name, resource, node string) string {
	return fmt.Sprintf("---\n{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {nodeName: %q, containers: [{name: c, image: i, resources: {limits: {%s: 1}}}]}}\n", name, node, resource)
}

// schedulerPod returns a pod of the present scheduler.
func schedulerPod(flags ...string) v1.Pod {
	return v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "kube-scheduler-a"}, Spec: v1.PodSpec{Containers: []v1.Container{{Image: "registry.k8s.io/kube-scheduler:v1.37.1", Command: append([]string{"kube-scheduler"}, flags...)}}}}
}

// expect compares the rows that do not pass. Only the beginning of each row must be as
// wanted.
func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	same := len(got) == len(want)
	for i := range min(len(got), len(want)) {
		same = same && strings.HasPrefix(got[i], want[i])
	}
	if !same {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestPreflight lets every check pass, and then each of them fail or warn.
func TestPreflight(t *testing.T) {
	present := []v1.Pod{schedulerPod()}
	report, lines := (&apiServer{pods: present}).check(t, Request{}, "", podNamed("web", ""))
	expect(t, lines)
	if report.Fail+report.Warn != 0 || report.Pass < 25 {
		t.Errorf("%d passed, %d warn, %d failed", report.Pass, report.Warn, report.Fail)
	}
	groups := map[string]bool{"GenericWorkload": true}
	for _, test := range []struct {
		name   string
		server *apiServer
		r      Request
		config string
		pods   string
		want   []string
	}{
		{"old server", &apiServer{minor: "36"}, Request{}, "", "", []string{"fail version the API server is v1.36.1"}},
		{"next server", &apiServer{minor: "38+"}, Request{}, "", "", []string{"warn version the API server is v1.38+"}},
		{"newer server", &apiServer{minor: "39"}, Request{}, "", "", []string{"warn version the API server is v1.39.1, Berth takes the place of kube-scheduler 1.38"}},
		{"far server", &apiServer{minor: "40"}, Request{}, "", "", []string{"fail version the API server is v1.40"}},
		{"a kind", &apiServer{lacks: []string{"csinodes", "deviceclasses"}}, Request{}, "", "",
			[]string{"fail kinds the API server does not serve csinodes in storage.k8s.io/v1", "warn kinds the API server does not serve deviceclasses in resource.k8s.io/v1"}},
		{"rights", &apiServer{denies: []string{"watch pods", "create pods/binding", "create tokenreviews"}}, Request{}, "", "",
			[]string{"fail rights the user may not watch pods", "fail rights the user may not create pods/binding", "warn rights the user may not create tokenreviews.authentication.k8s.io: requests to"}},
		{"no leases without election", &apiServer{denies: []string{"create leases"}}, Request{}, "leaderElection: {leaderElect: false}", "", nil},
		{"leases", &apiServer{denies: []string{"create leases"}}, Request{}, "", "", []string{"fail rights the user may not create leases.coordination.k8s.io in kube-system"}},
		{"rights that may not be asked about", &apiServer{forbidsAsked: true}, Request{Of: Subject{Name: "system:kube-scheduler"}}, "", "",
			[]string{"fail rights you may not check the permissions of system:kube-scheduler"}},
		{"groups", &apiServer{denies: []string{"patch podgroups/status"}}, Request{Gates: groups}, "", "", []string{"fail rights the user may not patch podgroups/status.scheduling.k8s.io"}},
		{"no groups", &apiServer{denies: []string{"patch podgroups/status"}}, Request{}, "", "", nil},
		{"a mistake", &apiServer{}, Request{}, "profiles: [{plugins: {filter: {enabled: [{name: Ours}]}}}]", "", []string{"fail configuration"}},
		{"notes", &apiServer{}, Request{}, "percentageOfNodesToScore: 20", "", []string{"warn configuration accepted, but percentageOfNodesToScore has no effect"}},
		{"another scheduler's pods", &apiServer{}, Request{}, "", podNamed("a", ", schedulerName: other") + podNamed("b", ", schedulerName: other"),
			[]string{`warn workloads 2 pods have the scheduler name "other", which no profile has: default/a, default/b`}},
		{"pods that need what is not there", &apiServer{}, Request{}, "profiles: [{plugins: {preFilter: {disabled: [{name: DynamicResources}]}, multiPoint: {disabled: [{name: DynamicResources}]}, filter: {enabled: [{name: DynamicResources}]}}}]",
			podNamed("a", ", resourceClaims: [{name: gpu, resourceClaimName: gpu}]"), []string{"fail workloads 1 pods would stay pending if they were recreated: the pod needs devices"}},
		{"extended resources that are devices", &apiServer{}, Request{}, "profiles: [{plugins: {preFilter: {disabled: [{name: DynamicResources}]}, multiPoint: {disabled: [{name: DynamicResources}]}, filter: {enabled: [{name: DynamicResources}]}}}]",
			"---\n{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: gpu}, spec: {extendedResourceName: example.com/gpu}}\n" + asking("named", "example.com/gpu", "") +
				asking("implied", "deviceclass.resource.kubernetes.io/gpu", "a") + asking("other", "example.com/nic", ""), []string{"fail workloads 2 pods would stay pending if they were recreated: the pod needs devices, and DynamicResources is disabled at preFilter, reserve, preBind: default/implied, default/named"}},
		{"composite groups with the gate", &apiServer{}, Request{Gates: map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true, "CompositePodGroup": true}}, "", podNamed("a", ", schedulingGroup: {podGroupName: train}") +
			"---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: train}, spec: {parentCompositePodGroupName: all, schedulingPolicy: {basic: {}}}}", nil},
		{"composite groups", &apiServer{}, Request{Gates: groups}, "", podNamed("a", ", schedulingGroup: {podGroupName: train}") +
			"---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: train}, spec: {parentCompositePodGroupName: all, schedulingPolicy: {basic: {}}}}",
			[]string{"fail workloads 1 pods would stay pending if they were recreated: the pod group belongs to composite pod group all"}},
		{"composite groups without the gate", &apiServer{}, Request{}, "", podNamed("a", ", schedulingGroup: {podGroupName: train}") +
			"---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: train}, spec: {parentCompositePodGroupName: all, schedulingPolicy: {basic: {}}}}", nil},
		{"flags of the present scheduler", &apiServer{pods: []v1.Pod{schedulerPod("--config=/etc/s.yaml", "--feature-gates=GenericWorkload=true")}}, Request{}, "", "",
			[]string{"warn scheduler the present scheduler has --config=/etc/s.yaml", "warn scheduler the present scheduler has the feature gates GenericWorkload=true"}},
		{"flags that are given", &apiServer{pods: []v1.Pod{schedulerPod("--config=/etc/s.yaml", "--feature-gates=kube:GenericWorkload=true")}}, Request{Gates: groups}, "parallelism: 16", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := test.server
			if server.pods == nil {
				server.pods = present
			}
			_, lines := server.check(t, test.r, test.config, test.pods)
			expect(t, lines, test.want...)
		})
	}
}

// TestUpgrade lists what 1.38 changes: the objects of each rule, and removed gates that
// are given or that the present scheduler has.
func TestUpgrade(t *testing.T) {
	const (
		budgets = "---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: all}, spec: {selector: {}}}\n" +
			"---\n{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {selector: {matchLabels: {app: web}}}}\n"
		spread   = ", topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}%s}]"
		extender = "extenders: [{urlPrefix: 'http://127.0.0.1:1/x', filterVerb: f, preemptVerb: p}, {urlPrefix: 'http://127.0.0.1:1/y', filterVerb: f}]"
	)
	server := func(flags ...string) *apiServer { return &apiServer{pods: []v1.Pod{schedulerPod(flags...)}} }
	_, lines := server().check(t, Request{To: config.Release38}, "", podNamed("web", ""))
	expect(t, lines)
	_, lines = server("--feature-gates=NodeSwap=true,GenericWorkload=true").check(t,
		Request{To: config.Release38, Gates: map[string]bool{"PodSchedulingReadiness": true, "NodeSwap": true, "GenericWorkload": true}}, extender,
		podNamed("bare", ", nodeName: a")+podNamed("pending", "")+budgets+podNamed("spread", fmt.Sprintf(spread, ""))+podNamed("keyed", fmt.Sprintf(spread, ", matchLabelKeys: [x]"))+
			podNamed("level", ", resources: {requests: {cpu: 1}}")+podNamed("oci", ", securityContext: {seccompProfile: {type: OCI}}"))
	expect(t, lines,
		"warn to 1.38 spreadEmptySelector: 2 affected: pod default/keyed, pod default/spread: in 1.38, it counts all pods of the namespace",
		"warn to 1.38 budgetEmptySelector: 1 affected: poddisruptionbudget default/all",
		"warn to 1.38 budgetUnlabelledPods: 1 affected: pod default/bare",
		"warn to 1.38 nodesWithoutVictims: 1 affected: extender http://127.0.0.1:1/x",
		"warn to 1.38 scorePodLevelRequests: 1 affected: pod default/level",
		"warn to 1.38 declaredFeatures38: 1 affected: pod default/oci",
		"warn to 1.38 the feature gate NodeSwap does not exist in 1.38",
		"warn to 1.38 the feature gate PodSchedulingReadiness does not exist in 1.38")
	_, lines = server("--feature-gates=WinDSR=true").check(t, Request{To: config.Release38, Gates: map[string]bool{"WinDSR": true}}, "", "")
	expect(t, lines, "warn to 1.38 the feature gate WinDSR does not exist in 1.38")
	_, lines = server().check(t, Request{To: config.Release37}, "", podNamed("spread", fmt.Sprintf(spread, "")))
	expect(t, lines)
}

// TestOfASubject checks the rights of a service account with its groups.
func TestOfASubject(t *testing.T) {
	server := &apiServer{pods: []v1.Pod{schedulerPod()}}
	_, lines := server.check(t, Request{Of: Subject{Name: "system:serviceaccount:kube-system:berth"}}, "", "")
	expect(t, lines)
	subject := server.asked["subject"]
	if want := []string{"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:kube-system"}; subject.User != "system:serviceaccount:kube-system:berth" || !slices.Equal(subject.Groups, want) {
		t.Errorf("asked about %s in %q", subject.User, subject.Groups)
	}
	for _, what := range []string{"list pods", "create pods/binding", "patch resourceclaims/binding", "update leases"} {
		if server.asked[what].ResourceAttributes == nil {
			t.Errorf("%q was not asked", what)
		}
	}
}

// TestUpgradeOfAnUnknownCluster: nothing is known about objects that were not read.
func TestUpgradeOfAnUnknownCluster(t *testing.T) {
	rows := upgrade(&Request{To: config.Release38})
	if len(rows) == 0 || rows[0].Status != Fail {
		t.Errorf("%+v, want a failure", rows)
	}
}
