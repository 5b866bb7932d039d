package kube

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/model"
)

// TestReportWaiting logs the resources without a first list, again and again, and nothing
// about the others.
func TestReportWaiting(t *testing.T) {
	w := &Watch{optional: map[model.Kind]cache.InformerSynced{}}
	no, yes := func() bool { return false }, func() bool { return true }
	w.listed[model.PodKind], w.listed[model.NodeKind], w.listed[model.StorageClassKind] = yes, no, no
	w.listed[model.ResourceClaimKind] = no // the API server may not serve it
	w.optional[model.ResourceClaimKind] = no
	var mu sync.Mutex
	var lines []string
	log := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{})
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), log))
	var reporting sync.WaitGroup
	reporting.Go(func() { w.reportWaiting(ctx, w.required(), time.Millisecond, time.Millisecond) })
	for range 10_000 {
		mu.Lock()
		enough := len(lines) > 1
		mu.Unlock()
		if enough {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	reporting.Wait()
	if len(lines) < 2 || !strings.Contains(lines[0], `"resources"=["nodes" "storageclasses.storage.k8s.io"]`) && !strings.Contains(lines[0], `["nodes","storageclasses.storage.k8s.io"]`) {
		t.Errorf("%q", lines)
	}
	w.listed[model.NodeKind], w.listed[model.StorageClassKind] = yes, yes
	if names := w.unlisted(w.required()); len(names) > 0 {
		t.Errorf("%q", names)
	}
}
