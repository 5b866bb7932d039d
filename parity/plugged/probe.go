package plugged

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

// ProbeName is a plugin that records its arguments and the results of its Handle. A pod's
// ProbeAnnotation chooses them. The notes are in a ConfigMap with the pod's name.
const ProbeName = "Probe"

const (
	// ProbeAnnotation chooses a pod's notes.
	ProbeAnnotation = "plugged.example.com/probe"
	// PoolLabel on a node is the script whose pods it takes.
	PoolLabel = "plugged.example.com/pool"
	// NominatesAnnotation has the probe nominate another pod in the pod's first attempt.
	NominatesAnnotation = "plugged.example.com/nominates"
	// GoLabel lets a held pod go.
	GoLabel = "plugged.example.com/go"
)

// noSuchNode is the name in a PreFilterResult without a matching node.
const noSuchNode = "no-such-node"

type probe struct {
	handle fwk.Handle

	mu    sync.Mutex
	notes map[types.UID][]string
}

var (
	_ fwk.PreEnqueuePlugin    = &probe{}
	_ fwk.EnqueueExtensions   = &probe{}
	_ fwk.PreFilterPlugin     = &probe{}
	_ fwk.PreFilterExtensions = &probe{}
	_ fwk.FilterPlugin        = &probe{}
	_ fwk.PostFilterPlugin    = &probe{}
	_ fwk.PreBindPlugin       = &probe{}
	_ fwk.PostBindPlugin      = &probe{}
)

func newProbe(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	h.SharedInformerFactory().Core().V1().Pods().Informer()
	return &probe{handle: h, notes: map[types.UID][]string{}}, nil
}

func (*probe) Name() string { return ProbeName }

// note adds a text to a pod's notes, once.
func (p *probe) note(pod *v1.Pod, format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if text := fmt.Sprintf(format, args...); !slices.Contains(p.notes[pod.UID], text) {
		p.notes[pod.UID] = append(p.notes[pod.UID], text)
	}
}

// publish writes a pod's notes.
func (p *probe) publish(ctx context.Context, pod *v1.Pod) {
	p.mu.Lock()
	text := strings.Join(p.notes[pod.UID], "\n")
	p.mu.Unlock()
	_, err := p.handle.ClientSet().CoreV1().ConfigMaps(pod.Namespace).Create(ctx, &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Data: map[string]string{"notes": text},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		klog.FromContext(ctx).Error(err, "Publish the notes about a pod", "pod", klog.KObj(pod))
	}
}

func probed(pod *v1.Pod) string { return annotation(pod, ProbeAnnotation) }

func (*probe) PreEnqueue(_ context.Context, pod *v1.Pod) *fwk.Status {
	if probed(pod) == "held" && pod.Labels[GoLabel] != "yes" {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod is held")
	}
	return nil
}

// EventsToRegister registers for label changes, which help only a held pod.
func (p *probe) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{
		Event: fwk.ClusterEvent{Resource: fwk.Pod, ActionType: fwk.UpdatePodLabel},
		QueueingHintFn: func(_ klog.Logger, pod *v1.Pod, before, after any) (fwk.QueueingHint, error) {
			was, _ := before.(*v1.Pod)
			is, _ := after.(*v1.Pod)
			if was == nil || is == nil || is.UID != pod.UID || probed(pod) != "held" {
				return fwk.QueueSkip, nil
			}
			p.note(pod, "hint: the label changes from %q to %q", was.Labels[GoLabel], is.Labels[GoLabel])
			if is.Labels[GoLabel] != "yes" {
				return fwk.QueueSkip, nil
			}
			return fwk.Queue, nil
		},
	}}, nil
}

func (p *probe) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	switch probed(pod) {
	case "statuses":
		names := sets.New(noSuchNode)
		for _, n := range nodes {
			if n.Node().Labels[PoolLabel] == pod.Spec.NodeSelector[PoolLabel] {
				names.Insert(n.Node().Name)
			}
		}
		return &fwk.PreFilterResult{NodeNames: names}, nil
	case "reasons":
		return nil, fwk.NewStatus(fwk.Unschedulable, "the first reason", "the second reason")
	case "nominates":
		p.nominate(pod)
	case "outranks":
		p.outrank(pod)
	}
	return nil, nil
}

// outrank notes the nominations to the node that the pod names. If the pod asks for it,
// its first attempt nominates another pod there.
func (p *probe) outrank(pod *v1.Pod) {
	if annotation(pod, NominatesAnnotation) != "" && !p.noted(pod, "nominates") {
		p.note(pod, "nominates")
		p.nominate(pod)
	}
	names := []string{}
	for _, other := range p.handle.NominatedPodsForNode(annotation(pod, WantsAnnotation)) {
		if other.GetPod().Name != pod.Name {
			names = append(names, other.GetPod().Name)
		}
	}
	p.note(pod, "attempt after preemption %v: nominated are %q", p.noted(pod, "PostFilter"), names)
}

// nominate nominates the pod that the pod names to the node that it names.
func (p *probe) nominate(pod *v1.Pod) {
	other, err := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(pod.Namespace).Get("nominee")
	if err != nil {
		p.note(pod, "PreFilter: %v", err)
		return
	}
	node := annotation(pod, WantsAnnotation)
	p.handle.AddNominatedPod(klog.Background(), podInfo{other}, &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: node})
	p.note(pod, "PreFilter: %d pods are nominated", len(p.handle.NominatedPodsForNode(node)))
}

// PreFilterExtensions returns the plugin itself.
func (p *probe) PreFilterExtensions() fwk.PreFilterExtensions { return p }

func (p *probe) AddPod(_ context.Context, _ fwk.CycleState, pod *v1.Pod, added fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	// kube-scheduler calls it for all nodes, Berth for those that built-in filters pass;
	// and for victims that are put back, Berth only if their resources fit.
	if added.GetPod().Namespace != pod.Namespace || probed(pod) == "outranks" {
		return nil
	}
	p.note(pod, "AddPod: %s on %s", added.GetPod().Name, node.Node().Name)
	return nil
}

func (p *probe) RemovePod(_ context.Context, _ fwk.CycleState, pod *v1.Pod, removed fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	p.note(pod, "RemovePod: %s from %s", removed.GetPod().Name, node.Node().Name)
	return nil
}

func (p *probe) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	switch probed(pod) {
	case "statuses", "runs":
		return fwk.NewStatus(fwk.Unschedulable, "the probe refuses the node")
	case "nominates":
		for _, other := range node.GetPods() {
			if other.GetPod().Name == "nominee" {
				p.note(pod, "Filter: the nominee is on %s", node.Node().Name)
			}
		}
	}
	return nil
}

func (p *probe) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, statuses fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if probed(pod) == "outranks" { // DefaultPreemption is next
		p.note(pod, "PostFilter")
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	own, err := p.pool(pod)
	if err != nil {
		return nil, fwk.AsStatus(err)
	}
	describe := func(name string) {
		s := statuses.Get(name)
		p.note(pod, "status of %s: %v %q of %q", name, s.Code(), s.Reasons(), s.Plugin())
	}
	switch probed(pod) {
	case "statuses":
		describe(noSuchNode)
		describe(own[0].Node().Name)
	case "reasons":
		describe(own[0].Node().Name)
	case "runs":
		p.run(ctx, state, pod, own)
	}
	p.publish(ctx, pod)
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

// pool returns the nodes of the pod's script, sorted by name.
func (p *probe) pool(pod *v1.Pod) ([]fwk.NodeInfo, error) {
	all, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	own := slices.DeleteFunc(slices.Clone(all), func(n fwk.NodeInfo) bool {
		return n.Node().Labels[PoolLabel] != pod.Spec.NodeSelector[PoolLabel]
	})
	slices.SortFunc(own, func(a, b fwk.NodeInfo) int { return strings.Compare(a.Node().Name, b.Node().Name) })
	return own, err
}

// run runs the profile's other plugins through the Handle.
func (p *probe) run(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) {
	p.note(pod, "RunPreScorePlugins: %v", p.handle.RunPreScorePlugins(ctx, state, pod, nodes).Code())
	scores, status := p.handle.RunScorePlugins(ctx, state, pod, nodes)
	p.note(pod, "RunScorePlugins: %v", status.Code())
	for _, s := range scores {
		var by []string
		for _, one := range s.Scores {
			by = append(by, fmt.Sprintf("%s=%d", one.Name, one.Score))
		}
		slices.Sort(by)
		p.note(pod, "%s: %v together %d", s.Name, by, s.TotalScore)
	}
	name := nodes[0].Node().Name
	p.note(pod, "RunReservePluginsReserve: %v", p.handle.RunReservePluginsReserve(ctx, state, pod, name).Code())
	p.handle.RunReservePluginsUnreserve(ctx, state, pod, name)
}

func (*probe) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (p *probe) PreBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, node string) *fwk.Status {
	switch probed(pod) {
	case "canceled":
		if annotation(pod, FailAnnotation) == "" || p.noted(pod, "canceled") {
			return nil
		}
		p.note(pod, "canceled")
		go func() { p.handle.GetPodInPreBind(pod.UID).CancelPod("the cause") }()
		<-ctx.Done()
		return fwk.AsStatus(ctx.Err())
	case "written":
		stored, err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return fwk.AsStatus(err)
		}
		p.note(pod, "PreBind: the pod is nominated to %q", stored.Status.NominatedNodeName)
	case "access":
		access := p.handle.KubeConfig()
		p.note(pod, "KubeConfig: sends %q, takes %q", access.ContentType, access.AcceptContentTypes)
		p.note(pod, "a client of custom resources: %v", tryZones(ctx, access, pod.Namespace+"-as-it-is"))
		json := rest.CopyConfig(access)
		json.ContentType = ""
		p.note(pod, "the same, with JSON: %v", tryZones(ctx, json, pod.Namespace+"-json"))
	}
	return nil
}

// noted reports whether a pod has a note.
func (p *probe) noted(pod *v1.Pod, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.notes[pod.UID], text)
}

func (p *probe) PostBind(ctx context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	if probed(pod) != "" {
		p.publish(ctx, pod)
	}
}

// podInfo is a PodInfo of a custom type.
type podInfo struct{ pod *v1.Pod }

var _ fwk.PodInfo = podInfo{}

func (i podInfo) GetPod() *v1.Pod                                     { return i.pod }
func (podInfo) GetRequiredAffinityTerms() []fwk.AffinityTerm          { return nil }
func (podInfo) GetRequiredAntiAffinityTerms() []fwk.AffinityTerm      { return nil }
func (podInfo) GetPreferredAffinityTerms() []fwk.WeightedAffinityTerm { return nil }
func (podInfo) GetPreferredAntiAffinityTerms() []fwk.WeightedAffinityTerm {
	return nil
}

// CalculateResource counts the CPUs of the pod's containers.
func (i podInfo) CalculateResource() fwk.PodResource {
	cpus := cpuOnly(0)
	for _, c := range i.pod.Spec.Containers {
		cpus += cpuOnly(c.Resources.Requests.Cpu().MilliValue())
	}
	return fwk.PodResource{Resource: cpus, Non0CPU: int64(cpus)}
}

// cpuOnly is a Resource with only CPUs, in millicores.
type cpuOnly int64

func (c cpuOnly) GetMilliCPU() int64                          { return int64(c) }
func (cpuOnly) GetMemory() int64                              { return 0 }
func (cpuOnly) GetEphemeralStorage() int64                    { return 0 }
func (cpuOnly) GetAllowedPodNumber() int                      { return 0 }
func (cpuOnly) GetScalarResources() map[v1.ResourceName]int64 { return nil }
func (cpuOnly) SetMaxResource(v1.ResourceList)                {}
