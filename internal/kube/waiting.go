package kube

import (
	"context"
	"time"

	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// The log names the resources without a first list after waitFirst, then each waitAgain.
// A missing right or a silent API server keeps the process from being ready, and the
// errors of each watch alone do not show the whole.
const (
	waitFirst = 10 * time.Second
	waitAgain = time.Minute
)

// reportWaiting logs the resources without a first list until the context ends.
func (w *Watch) reportWaiting(ctx context.Context, first, again time.Duration) {
	began := time.Now()
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if names := w.unlisted(); len(names) > 0 {
			klog.FromContext(ctx).Info("Not ready: the API server has not listed these resources yet",
				"resources", names, "for", time.Since(began).Round(time.Second))
		}
		timer.Reset(again)
	}
}

// unlisted returns the resources without a first list.
func (w *Watch) unlisted() (names []string) {
	for kind, listed := range w.listed {
		if listed != nil && !listed() {
			names = append(names, kinds.Get(model.Kind(kind)).Resource.GroupResource().String())
		}
	}
	return names
}
