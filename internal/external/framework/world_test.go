package framework_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/external/framework"
	"github.com/berth-scheduler/berth/internal/external/framework/snapshot"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
)

// world is a cluster of nodes of 4 cpu each, an engine, and out-of-tree plugins.
type world struct {
	testing.TB
	state     *state.State
	engine    *engine.Engine
	profile   *plugin.Profile
	runtime   *framework.Runtime
	activated []string
	nominated []string
}

func (w *world) Activate(pods []*v1.Pod) {
	for _, pod := range pods {
		w.activated = append(w.activated, pod.Name)
	}
}

func (w *world) Nominate(pod *v1.Pod, node string) {
	w.nominated = append(w.nominated, pod.Name+"@"+node)
}

const name = "default-scheduler"

func newWorld(t testing.TB, nodes int, plugins ...fwk.Plugin) *world {
	return newWorldWithin(t, 0, nodes, plugins...)
}

// newWorldWithin returns a world with another deadline than the default.
func newWorldWithin(t testing.TB, deadline time.Duration, nodes int, plugins ...fwk.Plugin) *world {
	w := &world{TB: t, state: state.New(), profile: enginetest.Profile(t, oracle.DefaultProfile())}
	w.profile.PostFilters = nil
	external, err := framework.New(t.Context(), framework.Config{
		Profile: name, Deadline: deadline, Snapshot: snapshot.New(nil), Queue: w, Log: klog.Logger{}, Devices: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.runtime = external
	t.Cleanup(external.Close)
	p := w.profile
	var binds []*framework.Binder
	for _, x := range plugins {
		if x, ok := x.(interface{ take(fwk.Handle) }); ok {
			x.take(external.Handle())
		}
		points, err := external.Adapt(x)
		if err != nil {
			t.Fatal(err)
		}
		p.PreFilters = add(p.PreFilters, points.PreFilter)
		if points.Filter != nil {
			p.Filters = append(p.Filters, points.Filter)
		}
		p.PostFilters = add(p.PostFilters, points.PostFilter)
		p.PreScores = add(p.PreScores, points.PreScore)
		if points.Score != nil {
			p.Scores = append(p.Scores, plugin.Weighted{Score: points.Score, Weight: 1000})
		}
		p.Reserve = add(p.Reserve, points.Reserve)
		p.Permit = add(p.Permit, points.Permit)
		p.PreBind = add(p.PreBind, points.PreBind)
		p.PostBind = add(p.PostBind, points.PostBind)
		if points.Bind != nil {
			binds = append(binds, points.Bind)
		}
	}
	external.Attach(p, binds)
	if w.engine, err = engine.New(engine.Config{Profiles: []*plugin.Profile{p}, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		w.apply(model.Change{Kind: model.NodeSet, Node: model.NewNode(build.Node(fmt.Sprintf("n%d", i), build.Allocatable("cpu=4 memory=32Gi pods=110")))})
	}
	return w
}

func add[P any](to []*P, p *P) []*P {
	if p == nil {
		return to
	}
	return append(to, p)
}

func (w *world) apply(changes ...model.Change) { w.state.Apply(changes) }

func (w *world) placed(name, node, cpu string) *model.Pod {
	pod := model.NewPod(w.object(name, cpu, build.NodeName(node)))
	w.apply(model.Change{Kind: model.PodSet, Pod: pod})
	return pod
}

func (w *world) object(name, cpu string, options ...build.PodOption) *v1.Pod {
	pod := build.Pod(append([]build.PodOption{build.Named(name), build.Container("cpu=" + cpu)}, options...)...)
	pod.Spec.SchedulerName, pod.UID = "default-scheduler", types.UID("uid-"+name)
	return pod
}

func (w *world) pod(name, cpu string, options ...build.PodOption) *model.Pod {
	pod := model.NewPod(w.object(name, cpu, options...))
	w.profile.Compile(pod)
	return pod
}

func (w *world) decide(pod *model.Pod) plan.Decision {
	return w.engine.Decide(w.state.View(), plan.Alone(pod))
}

// describe returns a decision in a line.
func describe(d *plan.Decision) string {
	switch d.Outcome {
	case plan.Placed:
		return "on " + d.Placement.NodeName
	case plan.Unschedulable:
		text := d.Rejection.Text(d.Nodes) + " " + strings.Join(d.Rejection.Plugins, ",")
		if d.PostFilter != "" {
			text += " " + d.PostFilter
		}
		return text
	}
	return fmt.Sprintf("%s: %v", d.Outcome, d.Err)
}

type named string

func (n named) Name() string { return string(n) }

func status(code fwk.Code, reasons ...string) *fwk.Status { return fwk.NewStatus(code, reasons...) }
