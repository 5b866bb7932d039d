package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// guarded returns the endpoints behind the guard, with a user who has the rights that the
// function returns.
func guarded(t *testing.T, with func(*Config), allowed func(authorizer.Attributes) bool) http.Handler {
	t.Helper()
	who := authenticator.RequestFunc(func(r *http.Request) (*authenticator.Response, bool, error) {
		name := r.Header.Get("Authorization")
		return &authenticator.Response{User: &user.DefaultInfo{Name: name}}, name != "", nil
	})
	may := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if allowed(a) {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	return guard(endpoints(t, with), Config{Authenticator: who, Authorizer: may})
}

func send(t *testing.T, handler http.Handler, method, path, as string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "https://host", http.NoBody)
	r.URL.Path = path
	r.RequestURI = path
	if as != "" {
		r.Header.Set("Authorization", as)
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	return answer
}

// TestWhoMayGetThePodMayAsk sends requests as three users: one may get one pod, one may
// read all other paths, and one has no rights.
func TestWhoMayGetThePodMayAsk(t *testing.T) {
	asked := 0
	x := &Explain{Answer: func(_ context.Context, namespace, name string) (any, error) {
		asked++
		return map[string]string{"pod": namespace + "/" + name}, nil
	}}
	handler := guarded(t, func(c *Config) { c.Explain = x }, func(a authorizer.Attributes) bool {
		switch a.GetUser().GetName() {
		case "owner":
			return a.IsResourceRequest() && a.GetVerb() == "get" && a.GetAPIGroup() == "" && a.GetResource() == "pods" && a.GetSubresource() == "" && a.GetNamespace() == "shop" && a.GetName() == "web-0"
		case "monitor":
			return !a.IsResourceRequest()
		}
		return false
	})
	for _, test := range []struct {
		as, path string
		want     int
	}{
		{"owner", ExplainPath("shop", "web-0"), http.StatusOK},
		{"owner", ExplainPath("shop", "web-1"), http.StatusForbidden},
		{"owner", ExplainPath("bank", "web-0"), http.StatusForbidden},
		{"owner", ExplainPath("shop", "web-0") + "/", http.StatusForbidden},
		{"owner", "/explain/v1//namespaces/shop/pods/web-0", http.StatusForbidden},
		{"monitor", ExplainPath("shop", "web-0"), http.StatusForbidden},
		{"monitor", ExplainPath("shop", ".."), http.StatusNotFound},
		{"monitor", ExplainPath("shop", "web-0/log"), http.StatusNotFound},
		{"monitor", ExplainPath("shop", strings.Repeat("a", longestName+1)), http.StatusNotFound},
		{"monitor", "/explain/v2/namespaces/shop/pods/web-0", http.StatusNotFound},
		{"eve", ExplainPath("shop", "web-0"), http.StatusForbidden},
		{"", ExplainPath("shop", "web-0"), http.StatusUnauthorized},
	} {
		before := asked
		got := send(t, handler, http.MethodGet, test.path, test.as)
		if got.Code != test.want || (asked > before) != (test.want == http.StatusOK) {
			t.Errorf("%q asks %s: %d %s, want %d", test.as, test.path, got.Code, got.Body, test.want)
		}
	}
}

// TestExplainAnswers sends errors as a Status, and rejects questions beyond the limit.
func TestExplainAnswers(t *testing.T) {
	noPod := apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "none")
	var codes []int
	x := &Explain{Answer: func(_ context.Context, _, name string) (any, error) {
		switch name {
		case "none":
			return nil, noPod
		case "broken":
			return nil, errors.New("broken")
		case "late":
			return nil, fmt.Errorf("ask: %w", context.DeadlineExceeded)
		case "loop":
			return func() {}, nil // not JSON
		}
		return map[string]int{"answer": 1}, nil
	}, Answered: func(code int, _ time.Duration) { codes = append(codes, code) }}
	handler := endpoints(t, func(c *Config) { c.Explain = x })
	for _, test := range []struct {
		method, name string
		want         int
		says, retry  string
	}{
		{http.MethodGet, "p", http.StatusOK, `{"answer":1}`, ""},
		{http.MethodGet, "none", http.StatusNotFound, `pods \"none\" not found`, ""},
		{http.MethodGet, "broken", http.StatusInternalServerError, `broken`, ""},
		{http.MethodGet, "late", http.StatusGatewayTimeout, `had no time`, "1"},
		{http.MethodGet, "loop", http.StatusInternalServerError, `unsupported type`, ""},
		{http.MethodDelete, "p", http.StatusMethodNotAllowed, `"kind":"Status"`, ""},
	} {
		got := send(t, handler, test.method, ExplainPath("ns", test.name), "")
		if got.Code != test.want || !strings.Contains(got.Body.String(), test.says) || got.Header().Get("Retry-After") != test.retry || got.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %v %s, want %d and %q", test.method, test.name, got.Code, got.Header(), got.Body, test.want, test.says)
		}
		if codes[len(codes)-1] != test.want {
			t.Errorf("%s %s: the code %d was observed", test.method, test.name, codes[len(codes)-1])
		}
	}
}

// TestExplainIsBounded fills all places with waiting questions. The next is rejected with
// a Retry-After. A question that waits too long fails.
func TestExplainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := &Explain{Answer: func(ctx context.Context, _, _ string) (any, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}}
		handler := x.handler()
		codes := make(chan int, maxQuestions)
		for range maxQuestions {
			go func() { codes <- send(t, handler, http.MethodGet, ExplainPath("ns", "p"), "").Code }()
		}
		synctest.Wait()
		got := send(t, handler, http.MethodGet, ExplainPath("ns", "p"), "")
		var status metav1.Status
		if err := json.Unmarshal(got.Body.Bytes(), &status); err != nil || got.Code != http.StatusTooManyRequests || got.Header().Get("Retry-After") != "1" || status.Kind != "Status" {
			t.Errorf("%d %v %s", got.Code, got.Header(), got.Body)
		}
		for range maxQuestions {
			if code := <-codes; code != http.StatusGatewayTimeout {
				t.Errorf("code %d after %v", code, questionTimeout)
			}
		}
	})
}
