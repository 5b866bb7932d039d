package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"

	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

func selecting(key, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

const requestHelp = `# HELP kube_pod_resource_request [STABLE] Resources that a pod requests of a node, as the scheduler and kubelets count them.
# TYPE kube_pod_resource_request gauge
`

const limitHelp = `# HELP kube_pod_resource_limit [STABLE] What a pod is limited to, by resource, as scheduling and kubelets count it.
# TYPE kube_pod_resource_limit gauge
`

func TestResources(t *testing.T) {
	priority := int32(7)
	pods := []*v1.Pod{
		pod("waits", "500m"),
		pod("runs", "1", func(p *v1.Pod) {
			p.Spec.NodeName, p.Spec.Priority = "a", &priority
			p.Spec.Overhead = v1.ResourceList{v1.ResourceCPU: resource.MustParse("250m")}
			p.Spec.Containers[0].Resources = v1.ResourceRequirements{
				Requests: v1.ResourceList{
					v1.ResourceCPU: resource.MustParse("1"), v1.ResourceMemory: resource.MustParse("1Ki"), v1.ResourceEphemeralStorage: resource.MustParse("0"),
					"hugepages-2Mi": resource.MustParse("2Mi"), "attachable-volumes-csi-x": resource.MustParse("3"), "example.com/gpu": resource.MustParse("2"),
				},
				Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("2Ki")},
			}
			p.Spec.InitContainers = []v1.Container{{Name: "first", Resources: v1.ResourceRequirements{
				Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")},
			}}}
		}),
		pod("done", "1", func(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "a", v1.PodSucceeded }),
	}
	server := httptest.NewServer(metrics.Resources(func() []*v1.Pod { return pods }))
	defer server.Close()
	const waits = `{namespace="default",node="",pod="waits",priority="",resource="cpu",scheduler="default-scheduler",unit="cores"} 0.5` + "\n"
	line := func(name, resource, unit, value string) string {
		return name + `{namespace="default",node="a",pod="runs",priority="7",resource="` + resource + `",scheduler="default-scheduler",unit="` + unit + `"} ` + value + "\n"
	}
	want := limitHelp +
		line("kube_pod_resource_limit", "memory", "bytes", "2048") +
		requestHelp + "kube_pod_resource_request" + waits
	for _, r := range [][3]string{
		{"attachable-volumes-csi-x", "integer", "3"}, {"cpu", "cores", "4.25"}, {"example.com/gpu", "", "2"},
		{"hugepages-2Mi", "bytes", "2.097152e+06"}, {"memory", "bytes", "1024"},
	} {
		want += line("kube_pod_resource_request", r[0], r[1], r[2])
	}
	if err := testutil.ScrapeAndCompare(server.URL, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	pods = pods[:1]
	if err := testutil.ScrapeAndCompare(server.URL, strings.NewReader(requestHelp+"kube_pod_resource_request"+waits)); err != nil {
		t.Errorf("after a pod went: %v", err)
	}
}
