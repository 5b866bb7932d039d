// Package outside has plugins and extenders in the style of users, for both schedulers.
//
// Its plugins use only k8s.io/kube-scheduler/framework and answer by the annotations of
// pods and nodes. A pod's annotation "<plugin>/<point>" or "<plugin>/<point>.<colour>" is
// the plugin's answer about the pod, or about nodes of that color, which is an annotation
// of the node. So a case is self-contained, and objects can be removed from it. A Set
// owns the record of one scheduler's calls from Reserve on. It never decides anything.
package outside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
)

// The plugins and their extension points.
const (
	Colour = "Colour" // Filter
	Shade  = "Shade"  // Filter
	Names  = "Names"  // PreFilter and Filter
	Rate   = "Rate"   // PreScore, Score and NormalizeScore
	Flat   = "Flat"   // Score
	Quota  = "Quota"  // PreFilter, AddPod, RemovePod and Filter
	First  = "First"  // Reserve and Permit
	Second = "Second" // Reserve and Permit
)

// Plugins returns the names of all plugins.
func Plugins() []string { return []string{Colour, Shade, Names, Rate, Flat, Quota, First, Second} }

// ColourKey is the color annotation of nodes, RateKey the score annotation.
const (
	ColourKey = "colour"
	RateKey   = "rate"
)

// The answers in annotations. PreFilter also accepts names of nodes, separated by commas.
const (
	No    = "no"    // Unschedulable
	Never = "never" // UnschedulableAndUnresolvable
	Two   = "two"   // Unschedulable for two reasons
	Late  = "late"  // Pending
	Broke = "error" // Error
	Skip  = "skip"
	Wait  = "wait"
)

// Factory makes a plugin.
type Factory = func(ctx context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error)

// Set has the plugins of one scheduler. It is not safe for concurrent use.
type Set struct {
	calls []string
}

// Calls returns the calls of Reserve, Unreserve and Permit since the last call of it.
func (s *Set) Calls() []string {
	calls := s.calls
	s.calls = nil
	return calls
}

// Factories returns the factory of each plugin.
func (s *Set) Factories() map[string]Factory {
	plain := func(make func(base base) fwk.Plugin) func(name string) Factory {
		return func(name string) Factory {
			return func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
				return make(base{name, h}), nil
			}
		}
	}
	filters := plain(func(b base) fwk.Plugin { return filter{b} })
	ends := plain(func(b base) fwk.Plugin { return late{b, s} })
	return map[string]Factory{
		Colour: filters(Colour), Shade: filters(Shade), First: ends(First), Second: ends(Second), Quota: newQuota,
		Names: plain(func(b base) fwk.Plugin { return names{filter{b}} })(Names),
		Rate:  plain(func(b base) fwk.Plugin { return rate{flat{b}} })(Rate),
		Flat:  plain(func(b base) fwk.Plugin { return flat{b} })(Flat),
	}
}

type base struct {
	name string
	h    fwk.Handle
}

// Name returns the plugin's name.
func (b base) Name() string { return b.name }

// says returns the answer in the pod's annotation.
func (b base) says(pod *v1.Pod, about string) string { return pod.Annotations[b.name+"/"+about] }

// status converts an answer to a status.
func (b base) status(says, about string) *fwk.Status {
	switch text := fmt.Sprintf("%s says no to %s", b.name, about); says {
	case No:
		return fwk.NewStatus(fwk.Unschedulable, text)
	case Never:
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
	case Two:
		return fwk.NewStatus(fwk.Unschedulable, text, b.name+" has a second reason")
	case Late:
		return fwk.NewStatus(fwk.Pending, b.name+" waits")
	case Broke:
		return fwk.AsStatus(errors.New(b.name + " is broken"))
	case Skip:
		return fwk.NewStatus(fwk.Skip)
	case Wait:
		return fwk.NewStatus(fwk.Wait, b.name+" waits")
	}
	return nil
}

type filter struct{ base }

// Filter answers by the node's color.
func (f filter) Filter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) *fwk.Status {
	colour := node.Node().Annotations[ColourKey]
	return f.status(f.says(pod, "filter."+colour), colour)
}

type names struct{ filter }

// PreFilter rejects pods, skips, or restricts them to nodes by name.
func (n names) PreFilter(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	says := n.says(pod, "prefilter")
	if status := n.status(says, pod.Name); says == "" || status != nil {
		return nil, status
	}
	return &fwk.PreFilterResult{NodeNames: sets.New(strings.Split(says, ",")...)}, nil
}

// PreFilterExtensions returns nil.
func (names) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

type flat struct{ base }

// Score returns a node's annotation.
func (s flat) Score(_ context.Context, _ fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	points, _ := strconv.ParseInt(node.Node().Annotations[RateKey], 10, 64)
	if says := s.says(pod, "score"); says == "out" && points > 90 {
		return fwk.MaxScore + 1, nil
	} else if says != "out" && points > 50 {
		return points, s.status(says, pod.Name)
	}
	return points, nil
}

// ScoreExtensions returns nil.
func (flat) ScoreExtensions() fwk.ScoreExtensions { return nil }

type rate struct{ flat }

const rateKey = "parity/rate"

// counted is the number of feasible nodes.
type counted int

// Clone returns the number itself.
func (c counted) Clone() fwk.StateData { return c }

// PreScore counts the nodes.
func (s rate) PreScore(_ context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) *fwk.Status {
	state.Write(rateKey, counted(len(nodes)))
	return s.status(s.says(pod, "prescore"), pod.Name)
}

// Score depends on all properties of a NodeInfo.
func (s rate) Score(ctx context.Context, state fwk.CycleState, pod *v1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := state.Read(rateKey)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	seen, err := s.h.SnapshotSharedLister().NodeInfos().Get(node.Node().Name)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	of := func(r fwk.Resource) int64 {
		sum := r.GetMilliCPU() + r.GetMemory()/(1<<20) + r.GetEphemeralStorage()/(1<<20) + int64(r.GetAllowedPodNumber())
		for _, amount := range r.GetScalarResources() {
			sum += amount % 1009
		}
		return sum
	}
	points := of(node.GetAllocatable()) + 3*of(node.GetRequested()) + 5*of(node.GetNonZeroRequested()) + int64(c.(counted))
	points += int64(100*len(node.GetPods()) + 300*len(seen.GetPods()) + 700*len(node.GetPodsWithAffinity()) + 1100*len(node.GetPodsWithRequiredAntiAffinity()))
	points += int64(13*node.GetUsedPorts().Len() + 17*len(node.GetPVCRefCounts()))
	for _, image := range node.GetImageStates() {
		points += image.Size%997 + int64(19*image.NumNodes)
	}
	return points % 1_000_003, nil
}

// ScoreExtensions returns itself.
func (s rate) ScoreExtensions() fwk.ScoreExtensions { return s }

// NormalizeScore maps scores to 0 to 100, or 100 to 0.
func (s rate) NormalizeScore(_ context.Context, _ fwk.CycleState, pod *v1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	var most int64
	for i := range scores {
		most = max(most, scores[i].Score)
	}
	for i := range scores {
		scores[i].Score = scores[i].Score * fwk.MaxScore / max(most, 1)
		if s.says(pod, "normalize") == "reverse" {
			scores[i].Score = fwk.MaxScore - scores[i].Score
		}
	}
	if s.says(pod, "normalize") == Broke {
		return s.status(Broke, pod.Name)
	}
	return nil
}

// QuotaArgs are Quota's arguments.
type QuotaArgs struct {
	// Pods is the limit of pods on nodes for each namespace.
	Pods map[string]int `json:"pods"`
	// AtPreFilter means that an excess pod is rejected at PreFilter, not only at Filter.
	AtPreFilter bool `json:"atPreFilter"`
}

type quota struct {
	base
	args QuotaArgs
}

func newQuota(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	q := quota{base: base{Quota, h}}
	unknown, ok := args.(*runtime.Unknown)
	if !ok {
		return q, nil
	}
	if unknown.ContentType != runtime.ContentTypeJSON {
		return nil, fmt.Errorf("the arguments are %q", unknown.ContentType)
	}
	return q, json.Unmarshal(unknown.Raw, &q.args)
}

const quotaKey = "parity/quota"

// used is the number of pods in each namespace.
type used map[string]int

// Clone returns a copy.
func (u used) Clone() fwk.StateData { return maps.Clone(u) }

// PreFilter counts the pods of all namespaces.
func (q quota) PreFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, given []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if q.says(pod, "prefilter") == Skip {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	nodes, err := q.h.SnapshotSharedLister().NodeInfos().List()
	if err != nil || len(nodes) != len(given) {
		return nil, fwk.AsStatus(fmt.Errorf("%d nodes are listed and %d given (%w)", len(nodes), len(given), err))
	}
	u := used{}
	for _, node := range nodes {
		for _, other := range node.GetPods() {
			u[other.GetPod().Namespace]++
		}
	}
	state.Write(quotaKey, u)
	if q.args.AtPreFilter {
		return nil, q.check(u, pod)
	}
	return nil, nil
}

func (q quota) check(u used, pod *v1.Pod) *fwk.Status {
	if limit, ok := q.args.Pods[pod.Namespace]; ok && u[pod.Namespace] >= limit {
		return fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("namespace %s has its %d pods", pod.Namespace, limit))
	}
	return nil
}

// PreFilterExtensions returns itself.
func (q quota) PreFilterExtensions() fwk.PreFilterExtensions { return q }

// AddPod counts a pod.
func (q quota) AddPod(_ context.Context, state fwk.CycleState, _ *v1.Pod, other fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return q.add(state, other, 1)
}

// RemovePod uncounts a pod.
func (q quota) RemovePod(_ context.Context, state fwk.CycleState, _ *v1.Pod, other fwk.PodInfo, _ fwk.NodeInfo) *fwk.Status {
	return q.add(state, other, -1)
}

func (quota) add(state fwk.CycleState, other fwk.PodInfo, n int) *fwk.Status {
	u, err := state.Read(quotaKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	u.(used)[other.GetPod().Namespace] += n
	return nil
}

// Filter checks the quota with the present counts.
func (q quota) Filter(_ context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeInfo) *fwk.Status {
	u, err := state.Read(quotaKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	return q.check(u.(used), pod)
}

type late struct {
	base
	set *Set
}

func (l late) called(point string, pod *v1.Pod, nodeName string) {
	l.set.calls = append(l.set.calls, fmt.Sprintf("%s of %s for %s on %s (%s)", point, l.name, pod.Name, nodeName, pod.Spec.NodeName))
}

// Reserve answers by the pod's annotation.
func (l late) Reserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	l.called("Reserve", pod, nodeName)
	return l.status(l.says(pod, "reserve"), pod.Name)
}

// Unreserve is recorded.
func (l late) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) {
	l.called("Unreserve", pod, nodeName)
}

// Permit answers by the pod's annotation.
func (l late) Permit(_ context.Context, _ fwk.CycleState, pod *v1.Pod, nodeName string) (*fwk.Status, time.Duration) {
	l.called("Permit", pod, nodeName)
	return l.status(l.says(pod, "permit"), pod.Name), 5 * time.Second
}

// NodeOf returns the node of the calls, or "" without calls.
func NodeOf(calls []string) string {
	if len(calls) == 0 {
		return ""
	}
	at := slices.Index(strings.Fields(calls[0]), "on")
	return strings.Fields(calls[0])[at+1]
}
