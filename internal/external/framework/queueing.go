package framework

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

type preEnqueue struct {
	external
	plugin fwk.PreEnqueuePlugin
}

// run runs the plugin. As in kube-scheduler, any status except Success gates the pod.
func (p *preEnqueue) run(pod *model.Pod) string {
	object := p.r.copies.of(pod)
	var o outcome
	var err error
	p.r.lane.about(pod, func() {
		o, err = call(p.r.lane, PreEnqueue, p.name, func(ctx context.Context) outcome {
			return read(p.plugin.PreEnqueue(ctx, object), PreEnqueue, success|failing|rejecting)
		})
	})
	p.observe(PreEnqueue, o.code, 1, err)
	switch {
	case err != nil:
		p.r.copies.drop(pod)
		return err.Error()
	case o.err != nil:
		return o.err.Error()
	case o.code != fwk.Success:
		return p.rejection(&o)
	}
	return ""
}

// maxCopies limits the pod copies for plugin calls on pending pods.
const maxCopies = 1024

// copies are plugins' copies of pending pods. Plugins are called many times for one pod,
// and must not write to the state's object.
type copies struct {
	byPod map[*model.Pod]*v1.Pod
	// event is the last event; before and after are copies of its objects.
	event         model.Event
	before, after any
	known         bool
}

func (c *copies) of(pod *model.Pod) *v1.Pod {
	if object := c.byPod[pod]; object != nil {
		return object
	}
	if c.byPod == nil || len(c.byPod) >= maxCopies {
		c.byPod = map[*model.Pod]*v1.Pod{}
	}
	object := copyOf(pod)
	c.byPod[pod] = object
	return object
}

// drop removes the copy of a pod, because an abandoned call may still write to it.
func (c *copies) drop(pod *model.Pod) { delete(c.byPod, pod) }

// kindsOf returns the kinds whose events are registered.
func kindsOf(events []model.EventToRegister) (all []model.Kind) {
	for kind := range model.KindCount {
		raises := kinds.Get(kind).Events
		if slices.ContainsFunc(events, func(r model.EventToRegister) bool { return slices.ContainsFunc(raises, r.Resource.Covers) }) {
			all = append(all, kind)
		}
	}
	return all
}

// register adds a plugin's registrations, unless the plugin cannot reject pods. A plugin
// without EnqueueExtensions registers for everything.
func (o external) register(p fwk.Plugin, to *Points) error {
	switch p.(type) {
	case fwk.PreEnqueuePlugin, fwk.PreFilterPlugin, fwk.FilterPlugin, fwk.ReservePlugin, fwk.PermitPlugin:
	default:
		return nil
	}
	e := &plugin.EnqueueExtensions{Name: o.name}
	if p, ok := p.(fwk.EnqueueExtensions); ok {
		type result struct {
			events []fwk.ClusterEventWithHint
			err    error
		}
		found, err := call(o.r.lane, EventsToRegister, o.name, func(ctx context.Context) result {
			events, err := p.EventsToRegister(ctx)
			return result{events, err}
		})
		if err != nil {
			return err
		}
		if found.err != nil {
			return &Failure{o.name, EventsToRegister, found.err.Error()}
		}
		for i := range found.events {
			e.Events = append(e.Events, o.registration(&found.events[i]))
		}
	} else {
		e.Events = model.DefaultEvents()
	}
	to.EnqueueExtensions, to.Objects = e, kindsOf(e.Events)
	return nil
}

// registration converts a registration. The bits of actions are kube-scheduler's.
func (o external) registration(e *fwk.ClusterEventWithHint) model.EventToRegister {
	r := registrationFor(e.Event.Resource)
	r.Actions = model.Action(e.Event.ActionType & fwk.All)
	if e.QueueingHintFn == nil && e.PreQueueingHintFn == nil {
		return r
	}
	h := &hint{external: o, before: e.PreQueueingHintFn, hint: e.QueueingHintFn}
	r.Hint = h.helps
	r.Alike = model.OfEachPod // the hint may read any field of the pod
	return r
}

// hint is a plugin's hint. If it fails, the pod is queued, as in kube-scheduler.
type hint struct {
	external
	before fwk.PreQueueingHintFn
	hint   fwk.QueueingHintFn
	// event is the event of the last call of before, and pods its result.
	event model.Event
	asked bool
	all   bool
	pods  map[types.NamespacedName]bool
}

func (h *hint) helps(waiting *model.Pod, event model.Event) bool {
	before, after, known := h.r.copies.objectsOf(event)
	if !known {
		return true
	}
	if h.before != nil && !h.concerns(waiting, event, before, after) {
		return false
	}
	if h.hint == nil {
		return true
	}
	object, log := h.r.copies.of(waiting), h.r.config.Log
	var helps bool
	var err error
	h.r.lane.about(waiting, func() {
		helps, err = call(h.r.lane, QueueingHint, h.name, func(context.Context) bool {
			hint, err := h.hint(log, object, before, after)
			if err != nil {
				log.Error(err, "Queueing hint failed", "plugin", h.name, "pod", klog.KObj(object))
			}
			return err != nil || hint != fwk.QueueSkip
		})
	})
	if err != nil {
		h.r.copies.drop(waiting)
		h.r.copies.known, h.r.copies.event = false, model.Event{}
		log.Error(err, "Queueing hint failed", "plugin", h.name, "pod", klog.KObj(waiting.Object))
	}
	return helps || err != nil
}

// concerns reports whether the plugin's PreQueueingHintFn names the pod for the event.
// The function is called once for each event.
func (h *hint) concerns(waiting *model.Pod, event model.Event, before, after any) bool {
	if !h.asked || !sameEvent(&h.event, &event) {
		log := h.r.config.Log
		type result struct {
			fwk.PreQueueingHintResult
			err error
		}
		found, err := call(h.r.lane, QueueingHint, h.name, func(context.Context) result {
			found, err := h.before(log, before, after)
			return result{found, err}
		})
		if err != nil { // an abandoned call may still write to the copies
			h.r.copies.known, h.r.copies.event = false, model.Event{}
			log.Error(err, "PreQueueing hint failed", "plugin", h.name)
		}
		h.event, h.asked, h.all, h.pods = event, true, found.AllPods || found.err != nil || err != nil, map[types.NamespacedName]bool{}
		for _, pod := range found.Pods {
			h.pods[pod] = true
		}
	}
	return h.all || h.pods[types.NamespacedName{Namespace: waiting.Namespace, Name: waiting.Name}]
}
