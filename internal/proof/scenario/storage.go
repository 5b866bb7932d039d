package scenario

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volume "k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// The grammars of storage objects.
var (
	claimAttributes = []attribute[*v1.PersistentVolumeClaim]{
		{key: "class", value: "NAME or none", apply: func(c *v1.PersistentVolumeClaim, _, value string) error {
			c.Spec.StorageClassName = nil
			if value != none {
				c.Spec.StorageClassName = &value
			}
			return nil
		}},
		{key: "size", value: "QUANTITY or none", apply: func(c *v1.PersistentVolumeClaim, _, value string) error {
			return setAmount(&c.Spec.Resources.Requests, v1.ResourceStorage, value)
		}},
		{key: "modes", value: modesForm, apply: func(c *v1.PersistentVolumeClaim, _, value string) (err error) {
			c.Spec.AccessModes, err = accessModes(value)
			return err
		}},
		{key: "mode", value: "Block or Filesystem", apply: func(c *v1.PersistentVolumeClaim, _, value string) (err error) {
			c.Spec.VolumeMode, err = volumeMode(value)
			return err
		}},
		{key: "select", value: "SELECTOR", apply: func(c *v1.PersistentVolumeClaim, _, value string) (err error) {
			c.Spec.Selector, err = labelSelector(value)
			return err
		}},
		{key: "volume", value: "VOLUME", apply: func(c *v1.PersistentVolumeClaim, _, value string) error { c.Spec.VolumeName = value; return nil }},
		{key: "bound", value: "VOLUME", apply: func(c *v1.PersistentVolumeClaim, _, value string) error {
			c.Spec.VolumeName, c.Status.Phase = value, v1.ClaimBound
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnBindCompleted, "yes")
			return nil
		}},
		{key: "selected", value: "NODE or none", apply: func(c *v1.PersistentVolumeClaim, _, value string) error {
			delete(c.Annotations, volume.AnnSelectedNode)
			if value != none {
				metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, value)
			}
			return nil
		}},
		{key: "lost", bare: true, value: "true", apply: func(c *v1.PersistentVolumeClaim, _, _ string) error { c.Status.Phase = v1.ClaimLost; return nil }},
		{key: "terminating", bare: true, value: "true", apply: terminating[*v1.PersistentVolumeClaim]},
	}
	volumeAttributes = []attribute[*v1.PersistentVolume]{
		{key: "class", value: "NAME or none", apply: func(v *v1.PersistentVolume, _, value string) error {
			if v.Spec.StorageClassName = value; value == none {
				v.Spec.StorageClassName = ""
			}
			return nil
		}},
		{key: "size", value: "QUANTITY or none", apply: func(v *v1.PersistentVolume, _, value string) error {
			return setAmount(&v.Spec.Capacity, v1.ResourceStorage, value)
		}},
		{key: "modes", value: modesForm, apply: func(v *v1.PersistentVolume, _, value string) (err error) {
			v.Spec.AccessModes, err = accessModes(value)
			return err
		}},
		{key: "mode", value: "Block or Filesystem", apply: func(v *v1.PersistentVolume, _, value string) (err error) {
			v.Spec.VolumeMode, err = volumeMode(value)
			return err
		}},
		{key: "claim", value: "CLAIM or none", apply: func(v *v1.PersistentVolume, _, value string) error {
			v.Spec.ClaimRef = nil
			if value != none {
				key := keyNamed(value)
				v.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: key.Namespace, Name: key.Name}
			}
			return nil
		}},
		{key: "affinity", value: "TERM or none", apply: volumeAffinity},
		{key: "zone", value: "NAME", apply: func(v *v1.PersistentVolume, _, value string) error { setLabel(&v.Labels, "zone", value); return nil }},
		{key: "region", value: "NAME", apply: func(v *v1.PersistentVolume, _, value string) error { setLabel(&v.Labels, "region", value); return nil }},
		{key: "label.", value: "VALUE", apply: func(v *v1.PersistentVolume, rest, value string) error { setLabel(&v.Labels, rest, value); return nil }},
		{key: "unlabel", value: "KEY", apply: func(v *v1.PersistentVolume, _, value string) error { delete(v.Labels, labelKey(value)); return nil }},
		{key: "csi", value: "DRIVER[/HANDLE]", apply: func(v *v1.PersistentVolume, _, value string) error {
			driver, handle, given := strings.Cut(value, "/")
			if !given {
				handle = v.Name
			}
			v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}
			return nil
		}},
		{key: "ebs", value: "ID", apply: func(v *v1.PersistentVolume, _, value string) error {
			v.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: value}}
			return nil
		}},
		{key: "reclaim", value: "Delete or Retain", apply: func(v *v1.PersistentVolume, _, value string) (err error) {
			v.Spec.PersistentVolumeReclaimPolicy, err = reclaimPolicy(value)
			return err
		}},
		{key: "phase", value: "Pending, Available, Bound, Released or Failed", apply: volumePhase},
		{key: "terminating", bare: true, value: "true", apply: terminating[*v1.PersistentVolume]},
	}
	classAttributes = []attribute[*storagev1.StorageClass]{
		{key: "provisioner", value: "NAME", apply: func(c *storagev1.StorageClass, _, value string) error { c.Provisioner = value; return nil }},
		{key: "immediate", bare: true, value: "true or false", apply: func(c *storagev1.StorageClass, _, value string) error {
			immediate, err := truth(value)
			mode := storagev1.VolumeBindingWaitForFirstConsumer
			if immediate {
				mode = storagev1.VolumeBindingImmediate
			}
			c.VolumeBindingMode = &mode
			return err
		}},
		{key: "topology", value: "KEY=VALUE,...;... or none", apply: allowedTopology},
		{key: "reclaim", value: "Delete or Retain", apply: func(c *storagev1.StorageClass, _, value string) error {
			policy, err := reclaimPolicy(value)
			c.ReclaimPolicy = &policy
			return err
		}},
	}
	csiNodeAttributes = []attribute[*storagev1.CSINode]{
		{key: "driver", value: "NAME[:COUNT] or none", apply: csiNodeDriver},
		{key: "migrated", value: "PLUGIN,... or none", apply: func(n *storagev1.CSINode, _, value string) error {
			delete(n.Annotations, v1.MigratedPluginsAnnotationKey)
			if value != none {
				metav1.SetMetaDataAnnotation(&n.ObjectMeta, v1.MigratedPluginsAnnotationKey, value)
			}
			return nil
		}},
	}
	driverAttributes = []attribute[*storagev1.CSIDriver]{
		{key: "capacity", bare: true, value: "true or false", apply: func(d *storagev1.CSIDriver, _, value string) error {
			tracked, err := truth(value)
			d.Spec.StorageCapacity = &tracked
			return err
		}},
		{key: "required", bare: true, value: "true or false", apply: func(d *storagev1.CSIDriver, _, value string) error {
			required, err := truth(value)
			d.Spec.PreventPodSchedulingIfMissing = &required
			return err
		}},
	}
	capacityAttributes = []attribute[*storagev1.CSIStorageCapacity]{
		{key: "class", value: "NAME", apply: func(c *storagev1.CSIStorageCapacity, _, value string) error { c.StorageClassName = value; return nil }},
		{key: "capacity", value: "QUANTITY or none", apply: func(c *storagev1.CSIStorageCapacity, _, value string) (err error) {
			c.Capacity, err = quantityOf(value)
			return err
		}},
		{key: "max", value: "QUANTITY or none", apply: func(c *storagev1.CSIStorageCapacity, _, value string) (err error) {
			c.MaximumVolumeSize, err = quantityOf(value)
			return err
		}},
		{key: "nodes", value: "SELECTOR", apply: func(c *storagev1.CSIStorageCapacity, _, value string) (err error) {
			c.NodeTopology, err = labelSelector(value)
			return err
		}},
	}
	attachmentAttributes = []attribute[*storagev1.VolumeAttachment]{
		{key: "driver", value: "NAME", apply: func(a *storagev1.VolumeAttachment, _, value string) error { a.Spec.Attacher = value; return nil }},
		{key: "node", value: "NODE", apply: func(a *storagev1.VolumeAttachment, _, value string) error { a.Spec.NodeName = value; return nil }},
		{key: "volume", value: "VOLUME", apply: func(a *storagev1.VolumeAttachment, _, value string) error {
			a.Spec.Source.PersistentVolumeName = &value
			return nil
		}},
	}
)

// storageStatements are the commands for storage objects.
func storageStatements() []statement {
	wait := storagev1.VolumeBindingWaitForFirstConsumer
	readWriteOnce := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	var all []statement
	all = append(all, statementsOf("pvc", model.PersistentVolumeClaimKind, claimAttributes, func(meta metav1.ObjectMeta) *v1.PersistentVolumeClaim {
		return &v1.PersistentVolumeClaim{
			ObjectMeta: meta, Spec: v1.PersistentVolumeClaimSpec{AccessModes: readWriteOnce}, Status: v1.PersistentVolumeClaimStatus{Phase: v1.ClaimPending},
		}
	})...)
	all = append(all, statementsOf("pv", model.PersistentVolumeKind, volumeAttributes, func(meta metav1.ObjectMeta) *v1.PersistentVolume {
		return &v1.PersistentVolume{
			ObjectMeta: meta, Spec: v1.PersistentVolumeSpec{AccessModes: readWriteOnce}, Status: v1.PersistentVolumeStatus{Phase: v1.VolumeAvailable},
		}
	})...)
	all = append(all, statementsOf("storageclass", model.StorageClassKind, classAttributes, func(meta metav1.ObjectMeta) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: meta, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &wait}
	})...)
	all = append(all, statementsOf("csinode", model.CSINodeKind, csiNodeAttributes, func(meta metav1.ObjectMeta) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: meta}
	})...)
	all = append(all, statementsOf("csidriver", model.CSIDriverKind, driverAttributes, func(meta metav1.ObjectMeta) *storagev1.CSIDriver {
		return &storagev1.CSIDriver{ObjectMeta: meta}
	})...)
	all = append(all, statementsOf("csistoragecapacity", model.CSIStorageCapacityKind, capacityAttributes, func(meta metav1.ObjectMeta) *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{ObjectMeta: meta}
	})...)
	return append(all, statementsOf("volumeattachment", model.VolumeAttachmentKind, attachmentAttributes, func(meta metav1.ObjectMeta) *storagev1.VolumeAttachment {
		return &storagev1.VolumeAttachment{ObjectMeta: meta}
	})...)
}

// statementsOf returns the commands for a kind: to create, change and delete an object.
func statementsOf[T kinds.Object](word string, kind model.Kind, attributes []attribute[T], empty func(metav1.ObjectMeta) T) []statement {
	return statementsWith(word, kind, attributes, empty, func(*world, T) error { return nil })
}

// statementsWith is statementsOf with a function that completes an object before it is
// stored.
func statementsWith[T kinds.Object](word string, kind model.Kind, attributes []attribute[T], empty func(metav1.ObjectMeta) T, complete func(*world, T) error) []statement {
	store := func(w *world, object T) error {
		if err := complete(w, object); err != nil {
			return err
		}
		return w.cluster.SetObject(object)
	}
	parse := func(args []string) (object T, ref model.Ref, rest []string, err error) {
		names, rest, err := named(args)
		if err != nil {
			return object, ref, nil, err
		}
		if rest, err = quoted(rest); err != nil {
			return object, ref, nil, err
		}
		key := keyNamed(names[0])
		if !kinds.Get(kind).Namespaced {
			if key.Namespace = ""; strings.Contains(names[0], "/") {
				return object, ref, nil, fmt.Errorf("%q: a %s is in no namespace", names[0], word)
			}
		}
		object = empty(metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name})
		return object, model.Ref{Kind: kind, Namespace: key.Namespace, Name: key.Name}, rest, applyAll(attributes, word, object, rest)
	}
	return []statement{
		{word: word, usage: word + " NAME ATTRIBUTE...", command: func(args []string, _ string) (func(*world) error, error) {
			object, ref, _, err := parse(args)
			if err != nil {
				return nil, err
			}
			return func(w *world) error {
				if w.cluster.Object(ref) != nil {
					return fmt.Errorf("%s %s is there already; want set %s", word, args[0], word)
				}
				return store(w, object)
			}, nil
		}},
		{word: "set " + word, usage: "set " + word + " NAME ATTRIBUTE...", command: func(args []string, _ string) (func(*world) error, error) {
			_, ref, rest, err := parse(args)
			if err != nil {
				return nil, err
			}
			return func(w *world) error {
				have := w.cluster.Object(ref)
				if have == nil {
					return fmt.Errorf("there is no %s %s", word, args[0])
				}
				object := have.DeepCopyObject().(T)
				if err := applyAll(attributes, word, object, rest); err != nil {
					return err
				}
				return store(w, object)
			}, nil
		}},
		{word: "delete " + word, usage: "delete " + word + " NAME", command: func(args []string, _ string) (func(*world) error, error) {
			_, ref, rest, err := parse(args)
			if err != nil || len(rest) > 0 {
				return nil, errors.Join(err, errNoName)
			}
			return func(w *world) error {
				if !w.cluster.DeleteObject(ref) {
					return fmt.Errorf("there is no %s %s", word, args[0])
				}
				return nil
			}, nil
		}},
	}
}

const modesForm = "RWO, RWX, ROX or RWOP, joined by commas"

func accessModes(value string) (modes []v1.PersistentVolumeAccessMode, err error) {
	short := map[string]v1.PersistentVolumeAccessMode{
		"RWO": v1.ReadWriteOnce, "RWX": v1.ReadWriteMany, "ROX": v1.ReadOnlyMany, "RWOP": v1.ReadWriteOncePod,
	}
	for word := range strings.SplitSeq(value, ",") {
		mode, ok := short[word]
		if !ok {
			return nil, fmt.Errorf("%q is not an access mode", word)
		}
		modes = append(modes, mode)
	}
	return modes, nil
}

func volumeMode(value string) (*v1.PersistentVolumeMode, error) {
	mode := v1.PersistentVolumeMode(value)
	if mode != v1.PersistentVolumeBlock && mode != v1.PersistentVolumeFilesystem {
		return nil, fmt.Errorf("%q is not a volume mode", value)
	}
	return &mode, nil
}

func reclaimPolicy(value string) (v1.PersistentVolumeReclaimPolicy, error) {
	policy := v1.PersistentVolumeReclaimPolicy(value)
	if policy != v1.PersistentVolumeReclaimDelete && policy != v1.PersistentVolumeReclaimRetain {
		return "", fmt.Errorf("%q is not a reclaim policy", value)
	}
	return policy, nil
}

func quantityOf(value string) (*resource.Quantity, error) {
	if value == none {
		return nil, nil
	}
	q, err := resource.ParseQuantity(value)
	if err != nil {
		return nil, fmt.Errorf("%q is not a quantity", value)
	}
	return &q, nil
}

// volumeAffinity adds a term to a volume's node affinity.
func volumeAffinity(v *v1.PersistentVolume, _, value string) error {
	if value == none {
		v.Spec.NodeAffinity = nil
		return nil
	}
	term, err := termOf(value)
	if err != nil {
		return err
	}
	if v.Spec.NodeAffinity == nil {
		v.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{}}
	}
	required := v.Spec.NodeAffinity.Required
	required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
	return nil
}

func volumePhase(v *v1.PersistentVolume, _, value string) error {
	switch phase := v1.PersistentVolumePhase(value); phase {
	case v1.VolumePending, v1.VolumeAvailable, v1.VolumeBound, v1.VolumeReleased, v1.VolumeFailed:
		v.Status.Phase = phase
		return nil
	}
	return fmt.Errorf("%q is not a phase", value)
}

// allowedTopology adds a term to a class's allowed topologies.
func allowedTopology(c *storagev1.StorageClass, _, value string) error {
	if value == none {
		c.AllowedTopologies = nil
		return nil
	}
	var term v1.TopologySelectorTerm
	for word := range strings.SplitSeq(value, ";") {
		key, values, ok := strings.Cut(word, "=")
		if !ok {
			return fmt.Errorf("%q has no value", word)
		}
		term.MatchLabelExpressions = append(term.MatchLabelExpressions, v1.TopologySelectorLabelRequirement{Key: labelKey(key), Values: strings.Split(values, ",")})
	}
	c.AllowedTopologies = append(c.AllowedTopologies, term)
	return nil
}

// csiNodeDriver adds a driver to a CSINode, or changes it.
func csiNodeDriver(n *storagev1.CSINode, _, value string) error {
	if value == none {
		n.Spec.Drivers = nil
		return nil
	}
	name, number, counted := strings.Cut(value, ":")
	driver := storagev1.CSINodeDriver{Name: name, NodeID: n.Name}
	if counted {
		count, err := strconv.ParseInt(number, 10, 32)
		if err != nil || count < 0 {
			return fmt.Errorf("%q is not a number of volumes", number)
		}
		small := int32(count)
		driver.Allocatable = &storagev1.VolumeNodeResources{Count: &small}
	}
	for i := range n.Spec.Drivers {
		if n.Spec.Drivers[i].Name == name {
			n.Spec.Drivers[i] = driver
			return nil
		}
	}
	n.Spec.Drivers = append(n.Spec.Drivers, driver)
	return nil
}

func terminating[T metav1.Object](object T, _, value string) error {
	if value != "true" {
		return fmt.Errorf("%q: deletion cannot be taken back", value)
	}
	at := metav1.NewTime(firstDay)
	object.SetDeletionTimestamp(&at)
	return nil
}

// expectObject checks the status of a claim or a volume.
func expectObject(kind model.Kind, status func(kinds.Object) string) func(args []string, text string) (check, error) {
	return func(args []string, text string) (check, error) {
		if len(args) != 1 || text == "" {
			return nil, errors.New("want a name, a colon and what has become of it")
		}
		key := keyNamed(args[0])
		ref := model.Ref{Kind: kind, Namespace: key.Namespace, Name: key.Name}
		if !kinds.Get(kind).Namespaced {
			ref.Namespace = ""
		}
		return func(w *world) error {
			have := "gone"
			if object := w.cluster.Object(ref); object != nil {
				have = status(object)
			}
			whole := strings.NewReplacer("/", ":") // in which a star matches any text
			if ok, err := path.Match(whole.Replace(text), whole.Replace(have)); err != nil || !ok {
				return fmt.Errorf("%s: want %s, is %s", args[0], text, have)
			}
			return nil
		}, nil
	}
}

// claimStatus describes a claim.
func claimStatus(object kinds.Object) string {
	claim := object.(*v1.PersistentVolumeClaim)
	_, completed := claim.Annotations[volume.AnnBindCompleted]
	switch node := claim.Annotations[volume.AnnSelectedNode]; {
	case claim.Status.Phase == v1.ClaimLost:
		return "lost"
	case completed:
		return "bound to " + claim.Spec.VolumeName
	case node != "":
		return "unbound, for " + node
	}
	return "unbound"
}

// volumeStatus describes a volume.
func volumeStatus(object kinds.Object) string {
	pv := object.(*v1.PersistentVolume)
	word := strings.ToLower(string(pv.Status.Phase))
	ref := pv.Spec.ClaimRef
	if ref == nil {
		return word
	}
	claim := short(model.PodKey{Namespace: ref.Namespace, Name: ref.Name})
	if pv.Status.Phase == v1.VolumeBound {
		return word + " to " + claim
	}
	return word + ", for " + claim
}
