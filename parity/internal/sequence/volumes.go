package sequence

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// The annotations for communication between the scheduler, the volume controller and
// provisioners.
const (
	bindDone     = "pv.kubernetes.io/bind-completed"
	selectedNode = "volume.kubernetes.io/selected-node"
)

// VolumeScripts returns the scripts with pods that have volumes. They have a third of the
// given number of pods: for each pod kube-scheduler compares all volumes with all claims
// on each node, so the work grows with the third power of the number of pods.
func VolumeScripts(pods int) []Script {
	script := func(name, about string, change func(p *play)) Script {
		return Script{Name: name, About: about, draw: func(seed uint64) *play {
			return newPlay(name, seed, max(1, pods/3), func(p *play) { p.template, p.volumes = p.any, true; change(p) })
		}}
	}
	return []Script{
		script("seq-volumes", "pods with volumes of all kinds, whose claims are bound and provisioned", func(*play) {}),
		script("seq-volume-churn", "the same while storage objects, nodes and pods come, change and go", func(p *play) { p.changes = 6 }),
	}
}

// mount gives a pod volumes, and creates the objects drawn for them.
func (p *play) mount(c *simulate.Cluster, pod *v1.Pod) error {
	// the owner of claims
	pod.UID = types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", p.r.Uint32(), p.made))
	p.stock.Mount(pod)
	return p.create(c)
}

func (p *play) create(c *simulate.Cluster) error {
	for _, o := range p.stock.Drawn() {
		if err := c.SetObject(o); err != nil {
			return err
		}
	}
	return nil
}

// changeStorage makes unrequested changes to storage objects.
func (p *play) changeStorage(c *simulate.Cluster) error {
	if chance(p.r, 20) {
		p.stock.More()
	}
	for range p.changes {
		changed, gone := p.stock.Change(c.Objects())
		if changed != nil {
			if err := c.SetObject(changed); err != nil {
				return err
			}
		}
		if gone != nil {
			if ref, ok := kinds.RefOf(gone); ok {
				c.DeleteObject(ref)
			}
		}
	}
	return p.create(c)
}

// control does the work of the volume controller and provisioners. It binds claims to the
// volumes that refer to them, and provisions claims with a selected node.
func (p *play) control(c *simulate.Cluster) error {
	claims := map[types.UID]*v1.PersistentVolumeClaim{}
	objects := c.Objects()
	for _, o := range objects {
		if claim, ok := o.(*v1.PersistentVolumeClaim); ok && claim.Spec.VolumeName == "" {
			claims[claim.UID] = claim
		}
	}
	bind := func(claim *v1.PersistentVolumeClaim, volume *v1.PersistentVolume) error {
		delete(claims, claim.UID)
		claim, volume = claim.DeepCopy(), volume.DeepCopy()
		volume.Status.Phase = v1.VolumeBound
		claim.Spec.VolumeName, claim.Status.Phase = volume.Name, v1.ClaimBound
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, bindDone, "yes")
		if err := c.SetObject(volume); err != nil {
			return err
		}
		return c.SetObject(claim)
	}
	for _, o := range objects {
		volume, ok := o.(*v1.PersistentVolume)
		if !ok || volume.Spec.ClaimRef == nil || claims[volume.Spec.ClaimRef.UID] == nil {
			continue
		}
		if err := bind(claims[volume.Spec.ClaimRef.UID], volume); err != nil {
			return err
		}
	}
	for _, o := range objects {
		claim, ok := o.(*v1.PersistentVolumeClaim)
		if !ok || claims[claim.UID] == nil || claim.Annotations[selectedNode] == "" {
			continue
		}
		if err := bind(claim, p.provisioned(claim)); err != nil {
			return err
		}
	}
	return nil
}

func (p *play) provisioned(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	p.made++
	name := fmt.Sprintf("provisioned-%d", p.made)
	size, ok := claim.Spec.Resources.Requests[v1.ResourceStorage]
	if !ok {
		size = resource.MustParse("1Gi")
	}
	volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1.PersistentVolumeSpec{
		Capacity: v1.ResourceList{v1.ResourceStorage: size}, AccessModes: claim.Spec.AccessModes, StorageClassName: *claim.Spec.StorageClassName,
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "disk.csi.example.com", VolumeHandle: name}},
		ClaimRef:               &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
	}}
	if chance(p.r, 50) {
		volume.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{claim.Annotations[selectedNode]}}}}}}}
	}
	return volume
}
