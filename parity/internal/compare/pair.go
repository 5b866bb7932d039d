package compare

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// KubeScheduler is kube-scheduler's view of one cluster, in this process (package
// upstream) or in another (package remote). The methods are explained in package
// upstream.
type KubeScheduler interface {
	SetNode(node *v1.Node)
	RemoveNode(name string) error
	SetPod(pod *v1.Pod) error
	RemovePod(namespace, name string) error
	SetObject(object runtime.Object) error
	RemoveObject(object runtime.Object) error
	Nodes() []*v1.Node
	Placed() []*v1.Pod
	Nominated() []*v1.Pod

	Explain(pod *v1.Pod) (*upstream.Verdict, error)
	Judge(pod *v1.Pod) (*upstream.Verdict, error)
	Commit(nodeName string) (verdict *upstream.Verdict, calls, waits []string)
	Reserve(pod *v1.Pod, nodeName string) ([]runtime.Object, error)

	Assume(pod *v1.Pod, nodeName string) error
	Forget(pod *v1.Pod) error
	Nominate(pod *v1.Pod, nodeName string) error
	Evict(pod *v1.Pod)
	Kept(pod types.UID)
	Allocated(claim types.UID)
	Close()
}

// Pair is the two schedulers of a comparison.
type Pair struct {
	// New builds kube-scheduler for an empty cluster.
	New func(config []byte) (KubeScheduler, error)
	// Sends means that kube-scheduler receives its objects as JSON. Berth then compares
	// the same objects, since an empty map is missing there.
	Sends bool
	// SameDevices removes the devices that 1.38 allocates in another way than 1.37.
	SameDevices bool
	// Release chooses Berth's answers.
	Release config.Release
	// Rule, unless it is empty, adds the answer of one rule to the release before it.
	Rule string
}

// InProcess returns kube-scheduler of this process, and Berth with the same answers.
func InProcess() Pair {
	return Pair{Release: config.Release37, New: func(config []byte) (KubeScheduler, error) { return upstream.New(config) }}
}

// Parse reads a configuration of Berth.
func (p Pair) Parse(text []byte) (*config.Config, error) {
	read, err := config.ParseWith("configuration", text, config.Request{Release: p.Release})
	return p.rules(read, err)
}

// rules applies the pair's rule to a configuration.
func (p Pair) rules(read *config.Config, err error) (*config.Config, error) {
	if err == nil && p.Rule != "" {
		read, err = read.ForRule(p.Rule)
	}
	if err != nil {
		return nil, fmt.Errorf("reading of the configuration by Berth: %w", err)
	}
	return read, nil
}

// load builds kube-scheduler with the cluster of a case.
func (p Pair) load(tc cases.Case) (KubeScheduler, error) {
	k, err := p.New(tc.Config)
	if err != nil {
		return nil, err
	}
	for _, n := range tc.Nodes {
		k.SetNode(n)
	}
	for _, o := range tc.Others() {
		if err := k.SetObject(o); err != nil {
			return nil, err
		}
	}
	for _, p := range tc.Pods {
		if err := k.SetPod(p); err != nil {
			return nil, err
		}
	}
	return k, nil
}
