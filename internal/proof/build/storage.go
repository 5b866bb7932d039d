package build

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Storage objects have resource version 1 and their name as UID, so that references can
// be written by hand. Their texts are words such as "storage=10Gi class=fast". All of
// them accept the words of their function, and these:
//
//	label=<key>=<value>       a label
//	annotation=<key>=<value>  an annotation
//	uid=<text> version=<text> the UID, the resource version
//	deleting                  a deletion timestamp
//
// An unknown word panics, because its row would not test its intent.

// StorageClass makes a class of no-provisioner and WaitForFirstConsumer by default. Its
// words are "provisioner=d mode=Immediate"; "mode=" leaves volumeBindingMode out.
func StorageClass(name, text string, options ...ClassOption) *storagev1.StorageClass {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	c := &storagev1.StorageClass{ObjectMeta: storageMeta("", name), Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &mode}
	read(&c.ObjectMeta, text, words{
		"provisioner": func(value string) { c.Provisioner = value },
		"mode": func(value string) {
			mode = storagev1.VolumeBindingMode(value)
			if value == "" {
				c.VolumeBindingMode = nil
			}
		},
	})
	for _, option := range options {
		option(c)
	}
	return c
}

// ClassOption changes a new class.
type ClassOption func(*storagev1.StorageClass)

// AllowedTopologies adds a term for each text such as "zone=z1,z2 disk=ssd"; "" is a term
// without expressions.
func AllowedTopologies(terms ...string) ClassOption {
	return func(c *storagev1.StorageClass) {
		for _, text := range terms {
			var term v1.TopologySelectorTerm
			for _, field := range strings.Fields(text) {
				key, values, _ := strings.Cut(field, "=")
				term.MatchLabelExpressions = append(term.MatchLabelExpressions,
					v1.TopologySelectorLabelRequirement{Key: key, Values: strings.Split(values, ",")})
			}
			c.AllowedTopologies = append(c.AllowedTopologies, term)
		}
	}
}

// CSINode makes the CSINode of a node. Drivers are "d=2 e=": d has room for 2 volumes, e
// has no limit. Migrated are the in-tree plugins in the annotation
// storage.alpha.kubernetes.io/migrated-plugins, which is absent without any.
func CSINode(node, drivers string, migrated ...string) *storagev1.CSINode {
	c := &storagev1.CSINode{ObjectMeta: storageMeta("", node)}
	for _, field := range strings.Fields(drivers) {
		name, count, _ := strings.Cut(field, "=")
		driver := storagev1.CSINodeDriver{Name: name, NodeID: node}
		if count != "" {
			number, err := strconv.ParseInt(count, 10, 32)
			if err != nil {
				panic("build: CSINode: " + err.Error())
			}
			small := int32(number)
			driver.Allocatable = &storagev1.VolumeNodeResources{Count: &small}
		}
		c.Spec.Drivers = append(c.Spec.Drivers, driver)
	}
	if len(migrated) > 0 {
		c.Annotations = map[string]string{v1.MigratedPluginsAnnotationKey: strings.Join(migrated, ",")}
	}
	return c
}

// CSIDriver makes a driver. Its words are the names of its true fields: "storageCapacity
// preventPodSchedulingIfMissing".
func CSIDriver(name, text string) *storagev1.CSIDriver {
	d := &storagev1.CSIDriver{ObjectMeta: storageMeta("", name)}
	yes := true
	read(&d.ObjectMeta, text, words{
		"storageCapacity":               func(string) { d.Spec.StorageCapacity = &yes },
		"preventPodSchedulingIfMissing": func(string) { d.Spec.PreventPodSchedulingIfMissing = &yes },
	})
	return d
}

// CSIStorageCapacity makes a capacity in the namespace default from "class=fast
// capacity=100Gi maximum=40Gi namespace=ns". Missing fields are not set. The topology is
// as in [Selector].
func CSIStorageCapacity(name, text, topology string) *storagev1.CSIStorageCapacity {
	c := &storagev1.CSIStorageCapacity{ObjectMeta: storageMeta(metav1.NamespaceDefault, name), NodeTopology: Selector(topology)}
	read(&c.ObjectMeta, text, words{
		"namespace": func(value string) { c.Namespace = value },
		"class":     func(value string) { c.StorageClassName = value },
		"capacity":  func(value string) { c.Capacity = quantity(value) },
		"maximum":   func(value string) { c.MaximumVolumeSize = quantity(value) },
	})
	return c
}

// VolumeAttachment makes an attachment from "attacher=d node=n1 volume=v1". Without a
// volume it is for an inline volume.
func VolumeAttachment(name, text string) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{ObjectMeta: storageMeta("", name)}
	read(&a.ObjectMeta, text, words{
		"attacher": func(value string) { a.Spec.Attacher = value },
		"node":     func(value string) { a.Spec.NodeName = value },
		"volume":   func(value string) { a.Spec.Source.PersistentVolumeName = &value },
	})
	if a.Spec.Source.PersistentVolumeName == nil {
		a.Spec.Source.InlineVolumeSpec = &v1.PersistentVolumeSpec{}
	}
	return a
}

// words are the valid words of a text, with their effects on an object.
type words map[string]func(value string)

// read reads the words of a text, and the words that all storage objects share.
func read(to *metav1.ObjectMeta, text string, known words) {
	for _, field := range strings.Fields(text) {
		word, value, _ := strings.Cut(field, "=")
		key, rest, _ := strings.Cut(value, "=")
		switch set := known[word]; {
		case set != nil:
			set(value)
		case word == "label":
			metav1.SetMetaDataLabel(to, key, rest)
		case word == "annotation":
			metav1.SetMetaDataAnnotation(to, key, rest)
		case word == "uid":
			to.UID = types.UID(value)
		case word == "version":
			to.ResourceVersion = value
		case word == "deleting":
			to.DeletionTimestamp = &metav1.Time{}
		default:
			panic(fmt.Sprintf("build: %s: unknown word %q", to.Name, word))
		}
	}
}

func storageMeta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), ResourceVersion: "1"}
}

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}
