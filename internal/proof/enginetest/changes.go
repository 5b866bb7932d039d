package enginetest

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// Changes returns the changes that build a cluster from an empty state. They include the
// nominated pods among the pending ones.
func Changes(c oracle.Cluster) []model.Change {
	var changes []model.Change
	changes = setObjects(changes, c.Namespaces)
	changes = setObjects(changes, c.Services)
	changes = setObjects(changes, c.ReplicationControllers)
	changes = setObjects(changes, c.ReplicaSets)
	changes = setObjects(changes, c.StatefulSets)
	changes = setObjects(changes, c.PersistentVolumes)
	changes = setObjects(changes, c.PersistentVolumeClaims)
	changes = setObjects(changes, c.StorageClasses)
	changes = setObjects(changes, c.CSINodes)
	changes = setObjects(changes, c.CSIDrivers)
	changes = setObjects(changes, c.CSIStorageCapacities)
	changes = setObjects(changes, c.VolumeAttachments)
	changes = setObjects(changes, c.DisruptionBudgets)
	for _, n := range c.Nodes {
		changes = append(changes, model.Change{Kind: model.NodeSet, Node: model.NewNode(n)})
	}
	for _, p := range c.Pods {
		if p.Spec.NodeName != "" || p.Status.NominatedNodeName != "" {
			changes = append(changes, setPod(p))
		}
	}
	return changes
}

// MutationChanges returns the changes that bring a state from before the mutation to
// after it.
func MutationChanges(m random.Mutation) []model.Change {
	switch {
	case m.NewNode != nil:
		return []model.Change{{Kind: model.NodeSet, Node: model.NewNode(m.NewNode)}}
	case m.OldNode != nil:
		return []model.Change{{Kind: model.NodeGone, Name: m.OldNode.Name}}
	case m.NewPod != nil:
		return []model.Change{setPod(m.NewPod)}
	case m.OldPod != nil:
		return []model.Change{{Kind: model.PodGone, Key: model.PodKey{Namespace: m.OldPod.Namespace, Name: m.OldPod.Name}}}
	case m.New != nil:
		return []model.Change{setObject(m.New.(runtime.Object))}
	case m.Old != nil:
		return []model.Change{{Kind: model.ObjectGone, Ref: refOf(m.Old.(runtime.Object))}}
	}
	return nil
}

// Pending returns a few pending pods of the cluster, including the newest.
func Pending(c oracle.Cluster) []*v1.Pod {
	var pending []*v1.Pod
	for _, p := range c.Pods {
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
			pending = append(pending, p)
		}
	}
	return pending[max(0, len(pending)-6):]
}

func setPod(p *v1.Pod) model.Change {
	if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
		return model.Change{Kind: model.PodGone, Key: model.PodKey{Namespace: p.Namespace, Name: p.Name}}
	}
	return model.Change{Kind: model.PodSet, Pod: model.NewPod(p)}
}

func setObjects[T interface {
	runtime.Object
	metav1.Object
}](changes []model.Change, objects []T) []model.Change {
	for _, o := range objects {
		changes = append(changes, setObject(o))
	}
	return changes
}

func setObject(o runtime.Object) model.Change {
	row := kinds.Of(o)
	if row == nil {
		panic("enginetest: an object of a kind that scheduling does not read")
	}
	return row.Change(o.(kinds.Object))
}

func refOf(o runtime.Object) model.Ref {
	ref, ok := kinds.RefOf(o)
	if !ok {
		panic("enginetest: an object of a kind that scheduling does not read")
	}
	return ref
}
