package oracle

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

var (
	pv       = build.PersistentVolume
	pvc      = build.PersistentVolumeClaim
	class    = build.StorageClass
	csiNode  = build.CSINode
	driver   = build.CSIDriver
	pool     = build.CSIStorageCapacity
	attached = build.VolumeAttachment

	from    = build.VolumeAffinity
	allowed = build.AllowedTopologies
	wanting = build.ClaimSelector

	called    = build.Named
	claims    = build.Claims
	ephemeral = build.Ephemeral
	disks     = build.Disks
	readOnly  = build.ReadOnlyDisks
)

// storing returns a cluster of nodes "n1=z1 n2=z2" with pods and storage objects.
func storing(nodesInZones string, pods []*v1.Pod, objects ...runtime.Object) Cluster {
	c := cluster(zoned(nodesInZones), pods...)
	for _, object := range objects {
		c.Add(object)
	}
	return c
}

func having(objects ...runtime.Object) []runtime.Object { return objects }

// ruling is "pod: text" if a PreFilter rejects the pod, "error: text" if the cycle fails,
// else the verdict on each node in short.
func ruling(a Judgment) string {
	switch {
	case a.Err != nil:
		return "error: " + a.Err.Error()
	case a.PreFilter != nil:
		return "pod: " + a.PreFilter.Plugin + ": " + strings.Join(a.PreFilter.Reasons, ", ")
	}
	return inShort(a)
}

// dryRuling is the verdict on a dry run's node in short.
func dryRuling(c Cluster, p *v1.Pod, d DryRun) string {
	rejections, err := JudgeDryRun(c, p, DefaultProfile(), d)
	if err != nil {
		return "error: " + err.Error()
	}
	return word(rejections)
}

// reservation is "claim=volume claim@node", in the order in which it is written.
func reservation(c Cluster, p *v1.Pod, nodeName string) string {
	r, ok := ReserveVolumes(c, p, nodeName)
	if !ok {
		return "rejected"
	}
	var words []string
	for _, b := range r.Static {
		words = append(words, b.Claim.Name+"="+b.Volume.Name)
	}
	for _, claim := range r.Provisioned {
		words = append(words, claim.Name+"@"+r.Node)
	}
	return strings.Join(words, " ")
}
