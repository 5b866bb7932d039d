// Package nodeports keeps a pod off nodes where another pod uses a host port that it
// needs.
//
// It takes a pod's host ports and the ports in use on a node, and returns a verdict. It
// owns nothing: the state counts the ports in use. It never compares a pod's ports with
// each other.
package nodeports

import (
	"slices"
	"strconv"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "NodePorts"

// taken is resolvable: preemption may evict the pod with the port.
const taken reason.Code = 1

// Plugin rejects nodes where a wanted port is in use.
type Plugin struct{}

// New returns the plugin.
func New() *Plugin { return &Plugin{} }

// Name returns "NodePorts".
func (*Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p *Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name:              Name,
		EnqueueExtensions: &plugin.EnqueueExtensions{Events: p.EventsToRegister()},
		Filter:            &plugin.Filter{Reads: plugin.Reads{Nodes: model.Ports}, Need: p.FilterNeed},
	})
}

// FilterNeed returns the pod's host ports, or nil if it has none.
func (*Plugin) FilterNeed(pod *model.Pod) plugin.FilterNeed {
	if len(pod.Ports) == 0 {
		return nil
	}
	return &wanted{sorted(pod.Ports)}
}

func sorted(ports []model.HostPort) []model.HostPort {
	if len(ports) < 2 {
		return ports
	}
	ports = slices.Clone(ports)
	slices.SortFunc(ports, model.HostPort.Compare)
	return ports
}

// wanted is the host ports that a pod needs, sorted.
type wanted struct{ ports []model.HostPort }

func (w *wanted) AppendText(text []byte) []byte {
	for _, port := range w.ports {
		text = strconv.AppendInt(text, int64(port.Port), 10)
		text = model.AppendQuote(text, string(port.Protocol))
		text = model.AppendQuote(text, port.IP)
	}
	return text
}

// Prepare has nothing to do: the ports are sorted.
func (*wanted) Prepare() {}

func (w *wanted) Compile() *plugin.Verdicts { return &plugin.Verdicts{NodeVerdicts: w} }

func (w *wanted) Filter(node state.Node) reason.Code {
	if node.PortInUse(w.ports) {
		return taken
	}
	return reason.None
}

func (*wanted) Reasons(reason.Code) []string {
	return []string{"node(s) didn't have free ports for the requested pod ports"}
}

// EventsToRegister registers for pods that free a port and for new nodes.
func (p *Plugin) EventsToRegister() []model.EventToRegister {
	return []model.EventToRegister{
		{
			Resource: model.AssignedPodEvent, Actions: model.Delete, Hint: freesPort,
			Alike: p.alike, Cause: cause, Touches: touches,
		},
		{Resource: model.NodeEvent, Actions: model.Add},
	}
}

// alike returns the pod's filter need.
func (p *Plugin) alike(pod *model.Pod) model.Need {
	if _, at, ok := plugin.Prepared[*wanted](pod); ok {
		return pod.Needs[at]
	}
	return plugin.NeedOf(p.FilterNeed(pod))
}

// cause requires that the deleted pod used a wanted port, on any address.
func cause(pod *model.Pod) model.Cause {
	wanted := make(model.Clause, 0, len(pod.Ports))
	for _, port := range pod.Ports {
		wanted = append(wanted, portKey(port))
	}
	return model.Cause{Wants: []model.Way{{wanted}}}
}

func portKey(port model.HostPort) model.Key {
	return model.Key{Kind: string(port.Protocol), Name: strconv.Itoa(int(port.Port))}
}

func touches(e model.Event, to *model.Touch) {
	to.Has = slices.Grow(to.Has, len(e.OldPod.Ports))
	for _, freed := range e.OldPod.Ports {
		to.Has = append(to.Has, portKey(freed))
	}
}

// freesPort reports whether the deleted pod conflicted with a port of the waiting pod.
// The deleted pod may have been placed on or nominated to any node.
func freesPort(waiting *model.Pod, e model.Event) bool {
	gone := e.OldPod
	if gone.NodeName == "" && gone.NominatedNode == "" {
		return false
	}
	return model.AnyPortConflicts(sorted(gone.Ports), sorted(waiting.Ports))
}
