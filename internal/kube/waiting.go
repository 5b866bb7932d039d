package kube

import (
	"context"
	"time"

	"k8s.io/client-go/tools/cache"
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

// await waits for first lists, and meanwhile logs which of the kinds have none. It
// returns false if the context has ended.
func (w *Watch) await(ctx context.Context, synced []cache.InformerSynced, of []model.Kind) bool {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	go w.reportWaiting(waiting, of, waitFirst, waitAgain)
	return cache.WaitForCacheSync(ctx.Done(), synced...)
}

// required returns the kinds that every API server serves.
func (w *Watch) required() (all []model.Kind) {
	for kind, listed := range w.listed {
		if _, optional := w.optional[model.Kind(kind)]; listed != nil && !optional {
			all = append(all, model.Kind(kind))
		}
	}
	return all
}

// reportWaiting logs which of the kinds have no first list until the context ends.
func (w *Watch) reportWaiting(ctx context.Context, of []model.Kind, first, again time.Duration) {
	began := time.Now()
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if names := w.unlisted(of); len(names) > 0 {
			klog.FromContext(ctx).Info("Waiting for the first list of these resources from the API server",
				"resources", names, "for", time.Since(began).Round(time.Second))
		}
		timer.Reset(again)
	}
}

// unlisted returns the resources of the kinds without a first list.
func (w *Watch) unlisted(of []model.Kind) (names []string) {
	for _, kind := range of {
		if !w.listed[kind]() {
			names = append(names, kinds.Get(kind).Resource.GroupResource().String())
		}
	}
	return names
}
