package absent

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// volumeKind returns the text for a volume of the kind, and "" for others.
type volumeKind func(v *v1.Volume) string

// uses returns the demand for volumes of any of the kinds.
func uses(kinds ...volumeKind) func(pod *v1.Pod) string {
	return func(pod *v1.Pod) string {
		var names []string
		for i := range pod.Spec.Volumes {
			for _, kind := range kinds {
				if name := kind(&pod.Spec.Volumes[i]); name != "" && !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		return used(names)
	}
}

func used(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return "uses " + strings.Join(names, ", ")
}

func claims(v *v1.Volume) string {
	if v.PersistentVolumeClaim == nil {
		return ""
	}
	return fmt.Sprintf("PersistentVolumeClaim %q", v.PersistentVolumeClaim.ClaimName)
}

func ephemeralVolumes(v *v1.Volume) string {
	return named(v, "ephemeral", v.Ephemeral != nil)
}

// comparedDisks are the volumes that two pods on a node can share only under conditions.
func comparedDisks(v *v1.Volume) string {
	switch {
	case v.GCEPersistentDisk != nil:
		return named(v, "gcePersistentDisk", true)
	case v.AWSElasticBlockStore != nil:
		return named(v, "awsElasticBlockStore", true)
	case v.ISCSI != nil:
		return named(v, "iscsi", true)
	}
	return named(v, "rbd", v.RBD != nil)
}

// countedDisks are the in-tree volumes that a CSI driver attaches and whose number on a node is limited. Those of azureFile and vsphereVolume
// are not counted, and neither are inline volumes of CSI drivers.
func countedDisks(v *v1.Volume) string {
	switch {
	case v.GCEPersistentDisk != nil:
		return named(v, "gcePersistentDisk", true)
	case v.AWSElasticBlockStore != nil:
		return named(v, "awsElasticBlockStore", true)
	case v.AzureDisk != nil:
		return named(v, "azureDisk", true)
	case v.Cinder != nil:
		return named(v, "cinder", true)
	}
	return named(v, "portworxVolume", v.PortworxVolume != nil)
}

func named(v *v1.Volume, kind string, is bool) string {
	if !is {
		return ""
	}
	return fmt.Sprintf("%s volume %q", kind, v.Name)
}
