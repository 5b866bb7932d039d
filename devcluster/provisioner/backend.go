package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// backend is the imaginary storage. It has a segment for each value of the topology key.
// A volume is reachable from the nodes of its segment. It is safe for concurrent use.
type backend struct {
	options *options
	nodes   corelisters.NodeLister
	// changed receives a value when a segment's room may have changed.
	changed chan struct{}

	mu       sync.Mutex
	volumes  map[string]allotment // by name of the PersistentVolume
	used     map[string]int64     // bytes by segment
	attempts map[types.UID]int    // for unprovisioned claims
}

// allotment is the room of one volume.
type allotment struct {
	segment string
	bytes   int64
}

func newBackend(o *options, nodes corelisters.NodeLister) *backend {
	return &backend{
		options: o, nodes: nodes, changed: make(chan struct{}, 1),
		volumes: map[string]allotment{}, used: map[string]int64{}, attempts: map[types.UID]int{},
	}
}

// SupportsBlock reports that a volume may also be a block device: nothing is ever
// mounted.
func (b *backend) SupportsBlock(context.Context) bool { return true }

// follow counts the driver's existing volumes, also of an earlier run.
func (b *backend) follow(volumes cache.SharedInformer) error {
	_, err := volumes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { b.take(o.(*v1.PersistentVolume)) },
		DeleteFunc: func(o any) {
			if missed, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = missed.Obj
			}
			b.giveBack(o.(*v1.PersistentVolume).Name)
		},
	})
	if err != nil {
		return fmt.Errorf("watch volumes: %w", err)
	}
	return nil
}

func (b *backend) take(volume *v1.PersistentVolume) {
	if volume.Spec.CSI == nil || volume.Spec.CSI.Driver != b.options.driver {
		return
	}
	storage := volume.Spec.Capacity[v1.ResourceStorage]
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allot(volume.Name, allotment{volume.Spec.CSI.VolumeAttributes[segmentAttribute], storage.Value()})
}

// allot gives a volume its room. A volume with room keeps it. Callers hold the lock.
func (b *backend) allot(volume string, a allotment) {
	if _, there := b.volumes[volume]; there {
		return
	}
	b.volumes[volume] = a
	b.used[a.segment] += a.bytes
	b.tell()
}

func (b *backend) giveBack(volume string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a, there := b.volumes[volume]
	if !there {
		return
	}
	delete(b.volumes, volume)
	if b.used[a.segment] -= a.bytes; b.used[a.segment] == 0 {
		delete(b.used, a.segment)
	}
	b.tell()
}

func (b *backend) tell() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// free returns a segment's free bytes.
func (b *backend) free(segment string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, b.options.capacityBytes-b.used[segment])
}

// segmentAttribute is the volume attribute with the segment's name.
const segmentAttribute = "segment"

// Provision creates a volume for a claim. The claim is handed back to the scheduler if
// the selected node is unsuitable or the attempt is chosen to fail.
func (b *backend) Provision(ctx context.Context, o controller.ProvisionOptions) (*v1.PersistentVolume, controller.ProvisioningState, error) {
	select {
	case <-time.After(b.options.delay):
	case <-ctx.Done():
		return nil, controller.ProvisioningNoChange, ctx.Err()
	}
	if b.fails(o.PVC) {
		return nil, controller.ProvisioningReschedule, errors.New("this attempt is one of those that fail")
	}
	segment, err := b.reserve(&o)
	if err != nil {
		return nil, controller.ProvisioningReschedule, err
	}
	b.mu.Lock()
	delete(b.attempts, o.PVC.UID)
	b.mu.Unlock()
	return b.volume(&o, segment), controller.ProvisioningFinished, nil
}

// Delete frees a volume's room.
func (b *backend) Delete(_ context.Context, volume *v1.PersistentVolume) error {
	b.giveBack(volume.Name)
	return nil
}

// fails decides from the seed, the claim's name and the number of the attempt whether an
// attempt fails.
func (b *backend) fails(claim *v1.PersistentVolumeClaim) bool {
	if b.options.failShare == 0 {
		return false
	}
	b.mu.Lock()
	b.attempts[claim.UID]++
	attempt := b.attempts[claim.UID]
	b.mu.Unlock()
	return unlucky(b.options.seed, claim.Namespace+"/"+claim.Name, attempt, b.options.failShare)
}

// unlucky is true for the given share of all claims and attempts.
func unlucky(seed uint64, claim string, attempt int, share float64) bool {
	hash := fnv.New64a()
	fmt.Fprint(hash, seed, " ", claim, " ", attempt) // a hash accepts every write
	// The last bits of FNV depend only on the last bytes. Multiplication spreads them
	// over the high bits, which decide.
	mixed := hash.Sum64() * 0x9e3779b97f4a7c15
	return float64(mixed>>11)/math.Exp2(53) < share
}

// reserve chooses a segment for a volume and reserves its room.
func (b *backend) reserve(o *controller.ProvisionOptions) (string, error) {
	segments, err := b.segments(o)
	if err != nil {
		return "", err
	}
	request := o.PVC.Spec.Resources.Requests[v1.ResourceStorage]
	b.mu.Lock()
	defer b.mu.Unlock()
	if have, there := b.volumes[o.PVName]; there {
		return have.segment, nil // an earlier attempt was interrupted after this
	}
	// The emptiest one. Segments are sorted, so equal runs make equal choices.
	best := slices.MinFunc(segments, func(x, y string) int { return int(min(max(b.used[x]-b.used[y], -1), 1)) })
	if limit := b.options.capacityBytes; limit > 0 && b.used[best]+request.Value() > limit {
		return "", fmt.Errorf("segment %s has %d bytes left, the claim requests %d", best, limit-b.used[best], request.Value())
	}
	b.allot(o.PVName, allotment{best, request.Value()})
	return best, nil
}

// segments returns a volume's possible segments, sorted and at least one: the selected
// node's, or all that the class allows.
func (b *backend) segments(o *controller.ProvisionOptions) ([]string, error) {
	if o.SelectedNodeName != "" {
		node, err := b.nodes.Get(o.SelectedNodeName)
		if err != nil {
			return nil, fmt.Errorf("find the selected node: %w", err)
		}
		segment, ok := node.Labels[b.options.topologyKey]
		switch {
		case !ok:
			return nil, fmt.Errorf("node %s has no label %s", node.Name, b.options.topologyKey)
		case !allowed(o.StorageClass.AllowedTopologies, node.Labels):
			return nil, fmt.Errorf("class %s allows no volumes for node %s", o.StorageClass.Name, node.Name)
		}
		return []string{segment}, nil
	}
	nodes, err := b.nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var segments []string
	for _, node := range nodes {
		if segment, ok := node.Labels[b.options.topologyKey]; ok && allowed(o.StorageClass.AllowedTopologies, node.Labels) {
			segments = append(segments, segment)
		}
	}
	if len(segments) == 0 {
		return nil, fmt.Errorf("class %s allows no volumes for any node with a label %s", o.StorageClass.Name, b.options.topologyKey)
	}
	slices.Sort(segments)
	return slices.Compact(segments), nil
}

// allowed reports whether a class allows volumes for nodes with these labels.
func allowed(terms []v1.TopologySelectorTerm, node map[string]string) bool {
	if len(terms) == 0 {
		return true
	}
	return slices.ContainsFunc(terms, func(term v1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchLabelExpressions, func(e v1.TopologySelectorLabelRequirement) bool {
			value, there := node[e.Key]
			return !there || !slices.Contains(e.Values, value)
		})
	})
}

// volume returns a claim's PersistentVolume in a segment.
func (b *backend) volume(o *controller.ProvisionOptions, segment string) *v1.PersistentVolume {
	reclaim := v1.PersistentVolumeReclaimDelete
	if o.StorageClass.ReclaimPolicy != nil {
		reclaim = *o.StorageClass.ReclaimPolicy
	}
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: o.PVName},
		Spec: v1.PersistentVolumeSpec{
			Capacity:                      v1.ResourceList{v1.ResourceStorage: o.PVC.Spec.Resources.Requests[v1.ResourceStorage]},
			AccessModes:                   o.PVC.Spec.AccessModes,
			VolumeMode:                    o.PVC.Spec.VolumeMode,
			MountOptions:                  o.StorageClass.MountOptions,
			PersistentVolumeReclaimPolicy: reclaim,
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: b.options.driver, VolumeHandle: "handle-of-" + o.PVName, VolumeAttributes: map[string]string{segmentAttribute: segment},
			}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: b.options.topologyKey, Operator: v1.NodeSelectorOpIn, Values: []string{segment}}},
			}}}},
		},
	}
}

// ours reports whether a class names the driver.
func (o *options) ours(class *storagev1.StorageClass) bool { return class.Provisioner == o.driver }
