package kube

import (
	"context"
	"sync"

	"k8s.io/klog/v2"
)

// warningsMax is how many warnings are remembered: their texts are the API server's, and admission plugins may put anything into them.
const warningsMax = 100

// warnings logs each warning of the API server once, such as that a version is deprecated. client-go logs it with every answer, which is with every write.
type warnings struct {
	mu     sync.Mutex
	logged map[string]struct{} // by text; at most warningsMax
}

// HandleWarningHeaderWithContext is called by client-go with each header Warning.
func (w *warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if code != 299 || text == "" { // as client-go: the only code of the API server's
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.logged[text]; known || len(w.logged) == warningsMax {
		return
	}
	if w.logged == nil {
		w.logged = map[string]struct{}{}
	}
	w.logged[text] = struct{}{}
	klog.FromContext(ctx).Info("The API server warns", "warning", text)
}
