package kube

import (
	"fmt"
	"slices"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"
)

// TestWarningsAreLoggedOnce logs each text once, and stops at the maximum number of
// texts.
func TestWarningsAreLoggedOnce(t *testing.T) {
	var lines []string
	ctx := klog.NewContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	w := &warnings{}
	for range 3 {
		w.HandleWarningHeaderWithContext(ctx, 299, "-", "v1beta1 is deprecated")
		w.HandleWarningHeaderWithContext(ctx, 299, "-", "another")
		w.HandleWarningHeaderWithContext(ctx, 199, "-", "of somebody between")
		w.HandleWarningHeaderWithContext(ctx, 299, "-", "")
	}
	want := []string{`"level"=0 "msg"="The API server warns" "warning"="v1beta1 is deprecated"`, `"level"=0 "msg"="The API server warns" "warning"="another"`}
	if !slices.Equal(lines, want) {
		t.Errorf("logged: %q", lines)
	}
	for i := range 3 * maxWarnings {
		w.HandleWarningHeaderWithContext(ctx, 299, "-", fmt.Sprint("warning ", i))
	}
	if len(lines) != maxWarnings || len(w.logged) != maxWarnings {
		t.Errorf("%d are logged, %d remembered", len(lines), len(w.logged))
	}
}
