package queue_test

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// TestNamespacesFindWhomTheySelect changes a namespace beside 10,000 pods that wait in
// 5,000 namespaces, and deletes a pod that keeps some of them out. Neither costs work for
// every pod or for every namespace.
func TestNamespacesFindWhomTheySelect(t *testing.T) {
	const namespaces, each = 5000, 2
	c, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	s := state.New()
	set := func(objects ...kinds.Object) []model.Event {
		changes := make([]model.Change, len(objects))
		for i, o := range objects {
			changes[i] = kinds.Of(o).Change(o)
		}
		return s.Apply(changes).Events
	}
	pod := func(i int, name string, options ...build.PodOption) *v1.Pod {
		own := func(p *v1.Pod) { p.Namespace, p.Spec.SchedulerName = fmt.Sprint("ns-", i), c.Profiles[0].Name }
		return build.Pod(append(options, build.Named(name), build.Labels("app=web"), own)...)
	}
	apart := func(selector string) build.PodOption {
		return build.RequiredAntiAffinity(build.Term("zone", "app=web", build.NamespaceSelector(selector)))
	}
	set(build.Node("n", build.NodeLabels("zone=z")))
	var waiting []*model.Pod
	for i := range namespaces {
		set(build.Namespace(fmt.Sprint("ns-", i), fmt.Sprintf("name=ns-%d team=t%d", i, i%1000)))
		for n := range each {
			p := model.NewPod(pod(i, fmt.Sprint("p", n), apart(fmt.Sprintf("team=t%d", (i+1)%1000))))
			c.Profiles[0].Compile(p)
			waiting = append(waiting, p)
		}
	}
	repeller := pod(0, "repeller", build.NodeName("n"), apart("name=ns-7"))
	set(repeller)
	rules := c.Queue(time.Hour)
	rules.State = s
	q := parkedUnder(t, rules, waiting, "InterPodAffinity")
	for _, row := range []struct {
		name           string
		changes        func() []model.Event
		pods           int
		hints, matched int64
	}{
		// Its own pods, and the pods of the five namespaces that stay away from its team.
		{"a namespace leaves a team", func() []model.Event {
			return set(build.Namespace("ns-7", "name=ns-7 team=x"))
		}, each * 6, 6, 0},
		// The pods that it keeps out, and the pods that stay away from it.
		{"a pod goes that keeps out the pods of a namespace", func() []model.Event {
			return s.Apply([]model.Change{{Kind: model.PodGone, Key: model.NewPod(repeller).Key()}}).Events
		}, each * 6, 6, 1},
	} {
		before := s.NamespacesMatched()
		pods, hints := wokenBy(q, "InterPodAffinity", row.changes)
		if matched := s.NamespacesMatched() - before; pods != row.pods || hints > row.hints || matched > row.matched {
			t.Errorf("%s: %d pods are woken after %d hints, %d namespaces matched; want %d, at most %d and %d",
				row.name, pods, hints, matched, row.pods, row.hints, row.matched)
		}
	}
}
