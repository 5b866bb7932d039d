// Package plugin is the contract between the built-in plugins and those that run them, by kube-scheduler's extension points.
//
// It takes nothing. It gives an interface for each extension point, what a plugin's demands look like once they are compiled, and Profile,
// the plugins of one scheduler name in order. It owns nothing and decides nothing: the queue asks at PreEnqueue, QueueSort and
// EnqueueExtensions, the engine from PreFilter to Reserve, commit from PreBind to PostBind.
//
// A built-in plugin is a pure function. It reduces a pod to a need: the demands of the pod as far as the plugin goes, with a canonical text.
// Pods whose needs have equal texts share every answer, whatever else differs between them. The text and the compiled form come from one
// value, so they cannot disagree.
package plugin

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plan"
	"github.com/berth-scheduler/berth/internal/state"
)

// MaxScore is the best score a plugin gives a node after normalising.
const MaxScore = 100

// Plugin is a built-in plugin of one profile, with its arguments already checked. A plugin implements the interfaces of the extension points
// that it has a say at.
type Plugin interface {
	// Name is kube-scheduler's name of the plugin.
	Name() string
}

// PreEnqueue keeps pods from being tried at all.
type PreEnqueue interface {
	Plugin
	// PreEnqueue returns why the pod must not be tried yet, or "".
	PreEnqueue(pod *model.Pod) (reason string)
}

// QueueSort orders the pods that wait for their turn. All profiles have the same.
type QueueSort interface {
	Plugin
	// Less reports whether a goes before b. Pods of which neither does go in the order of their arrival.
	Less(a, b Queued) bool
}

// EnqueueExtensions names the events that may change a plugin's mind about a pod that it rejected.
type EnqueueExtensions interface {
	Plugin
	// EventsToRegister lists the events, with hints.
	EventsToRegister() []model.EventToRegister
	// Cause says what the rejection of the pod hinges on, so that events find the pods they can help.
	Cause(pod *model.Pod) model.Cause
}

// PreFilter looks at the pod before any node is looked at.
type PreFilter interface {
	Plugin
	// PreFilter rules out most nodes, or all of them.
	PreFilter(v state.View, pod *model.Pod) PreFilterResult
}

// PreFilterResult is what a PreFilter plugin says of a pod. The zero value has nothing to say.
type PreFilterResult struct {
	// Narrowed says that Nodes names the only nodes worth looking at.
	Narrowed bool
	Nodes    []string
	// Rejection, unless it is empty, rules out every node, for good.
	Rejection string
	// Err, unless it is nil, fails the pod's turn.
	Err error
}

// Filter says on which nodes a pod may run. It is a NodeFilter, a StateFilter or a CountFilter.
type Filter interface{ Plugin }

// NodeFilter gives verdicts that depend on the pod and one node. The engine keeps them in a column for each need.
type NodeFilter interface {
	Filter
	// FilterNeed reduces the pod to what decides the plugin's verdict on any node; nil means that every node passes, which is
	// kube-scheduler's PreFilter Skip. It is called before the pod reaches the loop.
	FilterNeed(pod *model.Pod) FilterNeed
	// FilterReads names the aspects of a node that verdicts depend on.
	FilterReads() model.Aspect
}

// StateFilter is a NodeFilter whose needs depend on more than the pod: on objects that the pod names, such as its claims.
type StateFilter interface {
	Filter
	// FilterNeedIn is FilterNeed, asked in each of the pod's turns. A rejection that is not empty rules out every node; an error fails the
	// pod's turn.
	FilterNeedIn(v state.View, pod *model.Pod) (need FilterNeed, rejection string, err error)
	// FilterReads names the aspects of a node that verdicts depend on.
	FilterReads() model.Aspect
}

// CountFilter gives verdicts that depend on the pods around a node. It has no column: placing a pod changes one count.
type CountFilter interface {
	Filter
	// CountNeed reduces the pod to what decides the plugin's verdicts; nil means that every node passes. It is called before the pod reaches
	// the loop.
	CountNeed(pod *model.Pod) CountNeed
}

// AsFilter returns the plugin as a filter, if it is one of the three kinds.
func AsFilter(p Plugin) (f Filter, ok bool) {
	switch p.(type) {
	case NodeFilter, StateFilter, CountFilter:
		return p, true
	}
	return nil, false
}

// PostFilter makes room for a pod that no node is feasible for.
type PostFilter interface {
	Plugin
	// PostFilter says which pods to evict so that the pod fits on a node, which it is then nominated to. A result without a node means that
	// the plugin has nothing to offer, and the next one is asked.
	PostFilter(c Cycle, pod *model.Pod) (PostFilterResult, error)
}

// Cycle is a pod's turn after its PreFilter, as PostFilter plugins may ask about it.
type Cycle interface {
	// View is the cluster of the turn.
	View() state.View
	// Fits reports whether the pod's filters pass a node in a dry run of View, nominated pods left out.
	Fits(dryRun *state.Draft, slot int32) (bool, error)
	// Resolvable reports whether the node was rejected for reasons that evicting pods may cure.
	Resolvable(slot int32) bool
}

// PostFilterResult is how room can be made.
type PostFilterResult struct {
	// NodeName is the node that the pod is nominated to.
	NodeName  string
	Evictions []plan.Eviction
}

// Score says how good a node is for a pod. It is a NodeScore or a SetScore.
type Score interface{ Plugin }

// NodeScore gives scores that depend on the pod and one node, and on the other nodes only through normalising.
type NodeScore interface {
	Score
	// ScoreNeed reduces the pod to what decides the plugin's scores; nil means that it adds nothing to any node, which is kube-scheduler's
	// PreScore Skip. It is called before the pod reaches the loop.
	ScoreNeed(pod *model.Pod) ScoreNeed
	// ScoreReads names the aspects of a node that scores depend on.
	ScoreReads() model.Aspect
	// Normalization says how raw scores become 0..MaxScore.
	Normalization() model.Normalization
}

// SetScore scores all feasible nodes together.
type SetScore interface {
	Score
	// SetNeed reduces the pod to what decides the plugin's scores; nil means that it adds nothing to any node. It is called before the pod
	// reaches the loop.
	SetNeed(pod *model.Pod) SetNeed
}

// AsScore returns the plugin as a Score plugin, if it is one of the two kinds.
func AsScore(p Plugin) (s Score, ok bool) {
	switch p.(type) {
	case NodeScore, SetScore:
		return p, true
	}
	return nil, false
}

// Reserve takes what a pod needs besides room on its node.
type Reserve interface {
	Plugin
	// Reserve returns what the pod holds from now on if it is placed on the node. An error sends the pod back to the queue. What is held is
	// given back when the pod is forgotten.
	Reserve(v state.View, pod *model.Pod, slot int32) ([]plan.Hold, error)
}

// Permit has something done, or waited for, before a placement goes on to its binding.
type Permit interface {
	Plugin
	// Permit returns what is to be done for a placement, in order. An error sends the pod back to the queue.
	Permit(v state.View, p *plan.Placement) ([]plan.Step, error)
}

// PreBind has something done between a decision and its binding, such as the binding of volumes.
type PreBind interface {
	Plugin
	// PreBind returns what is to be done for a placement, in order. An error sends the pod back to the queue.
	PreBind(v state.View, p *plan.Placement) ([]plan.Step, error)
}

// Waiter is a Permit or PreBind plugin with steps that wait.
type Waiter interface {
	Plugin
	// Done reports whether what the plugin's step of the placement waits for has happened. It is asked when an object that the step names
	// has changed. An error says that it cannot happen any more.
	Done(v state.View, p *plan.Placement) (done bool, err error)
}

// Bind says how a pod is bound. Of a profile's Bind plugins the first binds all of its pods.
type Bind interface {
	Plugin
	// Binding is what is sent to bind the pod to the node.
	Binding(pod *model.Pod, nodeName string) *v1.Binding
	// Tries is how often a binding is sent before its failure is final.
	Tries() int
	// Retry says whether to send a binding again after its try-th try, counted from 1, failed with err, and after which wait.
	Retry(err error, try int) (wait time.Duration, again bool)
}

// PostBind has something done after the binding.
type PostBind interface {
	Plugin
	// PostBind returns what is to be done for a placement, in order.
	PostBind(v state.View, p *plan.Placement) ([]plan.Step, error)
}
