package scenario

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	ephemeralForm = "NAME:CLASS:SIZE or none"
	diskForm      = "pd/NAME, ebs/ID, iscsi/IQN/LUN or rbd/MONITOR,.../POOL/IMAGE, each with /ro if it is read-only, or none"
)

// podClaim adds a volume that names a claim.
func podClaim(p *v1.Pod, _, value string) error {
	return addVolume(p, value, v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: value}})
}

// podEphemeral adds a generic ephemeral volume.
func podEphemeral(p *v1.Pod, _, value string) error {
	words := strings.Split(value, ":")
	if value == none {
		return addVolume(p, none, v1.VolumeSource{})
	}
	if len(words) != 3 {
		return errors.New("want a name, a class and a size")
	}
	size, err := resource.ParseQuantity(words[2])
	if err != nil {
		return fmt.Errorf("%q is not a quantity", words[2])
	}
	template := &v1.PersistentVolumeClaimTemplate{Spec: v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: &words[1],
		Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: size}},
	}}
	return addVolume(p, words[0], v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: template}})
}

// podDisk adds an inline disk.
func podDisk(p *v1.Pod, _, value string) error {
	rest, readOnly := strings.CutSuffix(value, "/ro")
	words := strings.Split(rest, "/")
	var source v1.VolumeSource
	switch {
	case value == none:
	case words[0] == "pd" && len(words) == 2:
		source.GCEPersistentDisk = &v1.GCEPersistentDiskVolumeSource{PDName: words[1], ReadOnly: readOnly}
	case words[0] == "ebs" && len(words) == 2:
		source.AWSElasticBlockStore = &v1.AWSElasticBlockStoreVolumeSource{VolumeID: words[1], ReadOnly: readOnly}
	case words[0] == "iscsi" && len(words) == 3:
		lun, err := strconv.ParseInt(words[2], 10, 32)
		if err != nil {
			return fmt.Errorf("%q is not a LUN", words[2])
		}
		source.ISCSI = &v1.ISCSIVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: words[1], Lun: int32(lun), ReadOnly: readOnly}
	case words[0] == "rbd" && len(words) == 4:
		source.RBD = &v1.RBDVolumeSource{CephMonitors: strings.Split(words[1], ","), RBDPool: words[2], RBDImage: words[3], ReadOnly: readOnly}
	default:
		return fmt.Errorf("%q is not a disk", value)
	}
	return addVolume(p, value, source)
}

// addVolume adds a volume to a pod; "none" removes all of them.
func addVolume(p *v1.Pod, value string, source v1.VolumeSource) error {
	if value == none {
		p.Spec.Volumes = nil
		return nil
	}
	name := value
	if source.Ephemeral == nil { // the name of an ephemeral volume is part of its claim's
		name = fmt.Sprint("v", len(p.Spec.Volumes))
	}
	p.Spec.Volumes = append(p.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
	return nil
}
