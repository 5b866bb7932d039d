package kube

import (
	"context"
	"sync"

	"k8s.io/klog/v2"
)

// maxWarnings limits the remembered warnings. Their texts come from the API server, and
// admission plugins may add any text.
const maxWarnings = 100

// warnings logs each warning of the API server once, such as a deprecated version.
// client-go logs it with every response, which is with every write.
type warnings struct {
	mu     sync.Mutex
	logged map[string]struct{} // by text; at most maxWarnings
}

// HandleWarningHeaderWithContext is called by client-go for each Warning header.
func (w *warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	if code != 299 || text == "" { // as in client-go: the API server's only code
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.logged[text]; known || len(w.logged) == maxWarnings {
		return
	}
	if w.logged == nil {
		w.logged = map[string]struct{}{}
	}
	w.logged[text] = struct{}{}
	klog.FromContext(ctx).Info("The API server warns", "warning", text)
}
