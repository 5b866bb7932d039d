package app

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
)

// quota is a custom resource with a Go type, as generated clients have one.
type quota struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
}

func (q *quota) DeepCopyObject() runtime.Object { copied := *q; return &copied }

// createQuota creates one with a client made like a generated one. It returns the headers
// of the request, or the client's error.
func createQuota(ctx context.Context, access *rest.Config) string {
	version := schema.GroupVersion{Group: "example.org", Version: "v1"}
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(version.WithKind("Quota"), &quota{})
	metav1.AddToGroupVersion(scheme, version)
	access.GroupVersion, access.APIPath = &version, "/apis"
	access.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	var sent http.Header
	access.Wrap(func(http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			sent = r.Header
			return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
		})
	})
	client, err := rest.RESTClientFor(access)
	if err == nil {
		err = client.Post().Resource("quotas").Body(&quota{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).Do(ctx).Error()
	}
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("sent as %s, accepted %s", sent.Get("Content-Type"), sent.Get("Accept"))
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestAccessOfPlugins checks the content types of Handle.KubeConfig: as in
// kube-scheduler, they are those of the configuration, whose default is protobuf for
// requests and none for responses.
func TestAccessOfPlugins(t *testing.T) {
	const protobuf, json = "application/vnd.kubernetes.protobuf", "application/json"
	const refused = "does not implement the protobuf marshalling interface"
	for _, test := range []struct{ connection, sends, accepts, created string }{
		{"", protobuf, "", refused},
		{"acceptContentTypes: application/json", protobuf, json, refused},
		{"contentType: application/json", json, "", "sent as application/json, accepted application/json, */*"},
		{"contentType: application/json, acceptContentTypes: application/yaml", json, "application/yaml", "sent as application/json, accepted application/yaml"},
	} {
		var access *rest.Config
		o := hostedWith(t, "clientConnection: {"+test.connection+"}\n", func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			access = h.KubeConfig()
			return testFilter{}, nil
		})
		o.stop(klog.Background())
		if access.ContentType != test.sends || access.AcceptContentTypes != test.accepts {
			t.Errorf("{%s}: the content type is %q, accepted are %q", test.connection, access.ContentType, access.AcceptContentTypes)
		}
		if got := createQuota(t.Context(), access); !strings.Contains(got, test.created) {
			t.Errorf("{%s}: a client of custom resources: %s, want %s", test.connection, got, test.created)
		}
	}
}

// hostedWith makes a plugin by the scheduler's configuration, and connects like the
// scheduler.
func hostedWith(t *testing.T, text string, factory PluginFactory) *external {
	t.Helper()
	added, err := config.NewExternal([]config.Registered{{Name: "Mine", Factory: factory}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(config.Request{File: file(t, "scheduler.yaml", header+text+"profiles: [{plugins: {multiPoint: {enabled: [{name: Mine}]}}}]\n"), External: added})
	if err != nil {
		t.Fatal(err)
	}
	c.Kubeconfig = kubeconfig(t)
	access, err := newAccess(&options{}, c, klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.Connect(access)
	if err != nil {
		t.Fatal(err)
	}
	o, _, err := newExternal(t.Context(), c, access, client, observers{metrics: &metrics.Metrics{}}, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
