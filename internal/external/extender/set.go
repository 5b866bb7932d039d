package extender

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/kit/quietlog"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Set is the extenders of a configuration. In every profile it precedes the Bind plugins,
// with the name plugin.ExtenderName.
type Set struct {
	// clients are in the order of their calls: first those that are not ignorable.
	clients []*Client
	flush   func()
}

// NewSet returns the extenders of a checked configuration. It logs ignored failures, many
// of one kind as a few lines.
func NewSet(configs []configv1.Extender, log logr.Logger) (*Set, error) {
	s := &Set{flush: func() {}}
	if log.GetSink() != nil { // otherwise nothing is logged
		log, s.flush = quietlog.Logger(log)
	}
	var ignorable []*Client
	for i := range configs {
		c, err := New(&configs[i], log)
		switch {
		case err != nil:
			return nil, fmt.Errorf("extenders[%d].tlsConfig: %w", i, err)
		case c.traits.Ignorable:
			ignorable = append(ignorable, c)
		default:
			s.clients = append(s.clients, c)
		}
	}
	s.clients = append(s.clients, ignorable...)
	return s, nil
}

// Extenders returns the extenders in the order of their calls.
func (s *Set) Extenders() []plugin.Extender {
	all := make([]plugin.Extender, len(s.clients))
	for i, c := range s.clients {
		all[i] = c
	}
	return all
}

// BindSteps returns the part of the profiles that binds pods.
func (s *Set) BindSteps() *plugin.BindSteps {
	return &plugin.BindSteps{Name: plugin.ExtenderName, Steps: s.bindSteps}
}

// Reads returns the kinds, besides pods and nodes, whose events retry pods that an
// extender rejected. Any event may help, because an extender does not register events.
func (s *Set) Reads() []model.Kind {
	return []model.Kind{
		model.PersistentVolumeKind, model.PersistentVolumeClaimKind, model.StorageClassKind, model.CSINodeKind, model.CSIDriverKind, model.CSIStorageCapacityKind,
		model.ResourceClaimKind, model.DeviceClassKind,
	}
}

// Binds reports whether any extender binds pods.
func (s *Set) Binds() bool {
	for _, c := range s.clients {
		if c.traits.Binds {
			return true
		}
	}
	return false
}

// bindSteps returns the binding step of the pod's extenders; none if no binding extender
// is interested in the pod.
func (s *Set) bindSteps(_ state.View, p *plan.Placement) ([]plan.Step, error) {
	var binders []*Client
	for _, c := range s.clients {
		if c.traits.Binds && c.IsInterested(p.Pod.Object) {
			binders = append(binders, c)
		}
	}
	if len(binders) == 0 {
		return nil, nil
	}
	return []plan.Step{{Call: &call{binders: binders, binding: v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Pod.Namespace, Name: p.Pod.Name, UID: p.Pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: p.NodeName},
	}}}}, nil
}

// Close logs the suppressed failures, and closes idle connections.
func (s *Set) Close() {
	s.flush()
	for _, c := range s.clients {
		c.http.CloseIdleConnections()
	}
}

// call binds a pod through an extender.
type call struct {
	binders []*Client
	binding v1.Binding
}

var _ commit.Call = (*call)(nil)

// IsCall marks the type as a plan.Call.
func (*call) IsCall() {}

// Run binds the pod through the first extender, or through the next if an ignorable one
// fails. If all fail, the step is skipped, and a Bind plugin binds the pod.
func (c *call) Run(ctx context.Context) commit.CallResult {
	for _, binder := range c.binders {
		if err := binder.BindContext(ctx, &c.binding); err == nil || !binder.traits.Ignorable {
			return commit.CallResult{Err: err}
		}
	}
	return commit.CallResult{Skipped: true}
}
