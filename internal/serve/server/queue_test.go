package server

import (
	"context"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestWhoMayListPodsMaySeeTheQueue sends requests as users who may list the pods of all
// namespaces, of one namespace, get one pod, or read all other paths.
func TestWhoMayListPodsMaySeeTheQueue(t *testing.T) {
	var asked []QueueQuestion
	x := &Queue{Answer: func(_ context.Context, q QueueQuestion) (any, error) {
		asked = append(asked, q)
		return q, nil
	}}
	handler := guarded(t, func(c *Config) { c.Queue = x }, func(a authorizer.Attributes) bool {
		lists := a.IsResourceRequest() && a.GetVerb() == "list" && a.GetAPIGroup() == "" && a.GetResource() == "pods" && a.GetSubresource() == "" && a.GetName() == ""
		switch a.GetUser().GetName() {
		case "operator":
			return lists
		case "shop":
			return lists && a.GetNamespace() == "shop"
		case "getter":
			return a.IsResourceRequest() && a.GetVerb() == "get"
		case "monitor":
			return !a.IsResourceRequest()
		}
		return false
	})
	all, shop, bank := QueueQuestion{}, QueueQuestion{Namespace: "shop"}, QueueQuestion{Namespace: "bank"}
	for _, test := range []struct {
		as, path string
		want     int
	}{
		{"operator", all.Path(), http.StatusOK},
		{"operator", bank.Path(), http.StatusOK},
		{"shop", shop.Path(), http.StatusOK},
		{"shop", bank.Path(), http.StatusForbidden},
		{"shop", all.Path(), http.StatusForbidden},
		{"shop", all.Path() + "/", http.StatusForbidden},
		{"shop", "/queue/v1/namespaces/", http.StatusForbidden},
		{"shop", "/queue/v1/namespaces/shop/", http.StatusForbidden},
		{"shop", "/queue/v1/namespaces/..", http.StatusForbidden},
		{"getter", shop.Path(), http.StatusForbidden},
		{"monitor", all.Path(), http.StatusForbidden},
		{"monitor", shop.Path(), http.StatusForbidden},
		{"monitor", "/queue/v1/", http.StatusNotFound},
		{"monitor", "/queue/v1/namespaces/shop/pods", http.StatusNotFound},
		{"monitor", "/queue/v1/namespaces/", http.StatusNotFound},
		{"", all.Path(), http.StatusUnauthorized},
	} {
		before := len(asked)
		got := send(t, handler, http.MethodGet, test.path, test.as)
		if got.Code != test.want || (len(asked) > before) != (test.want == http.StatusOK) {
			t.Errorf("%q asks %s: %d %s, want %d", test.as, test.path, got.Code, got.Body, test.want)
		}
	}
}

// TestQueueQuestions reads the parameters of a question, and rejects all others.
func TestQueueQuestions(t *testing.T) {
	for _, want := range []QueueQuestion{{}, {Namespace: "shop", LabelSelector: "app in (a, b)", Pods: true}} {
		namespace, ok := queued(want.Path())
		if got, err := queueQuestion(namespace, want.Query()); !ok || err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	for name, value := range map[string]string{"labelselector": "app=a", "fieldSelector": "a=b", podsParameter: "yes"} {
		if got, err := queueQuestion("", map[string][]string{name: {value}}); !apierrors.IsBadRequest(err) {
			t.Errorf("%s=%s: %+v, %v", name, value, got, err)
		}
	}
}
