#!/usr/bin/env bash
# A PersistentVolume of the in-tree type awsElasticBlockStore names its zone by node
# affinity to the label topology.kubernetes.io/zone.
#
# Guess: each node with this label passes the check of kube-scheduler.
# Found: where the CSINode lists the type as migrated, kube-scheduler translates the
# volume to CSI before the check. The translation replaces the key by
# topology.ebs.csi.aws.com/zone, a label that the node gets when the driver registers.
# Kubelet writes the list when it starts, before any driver pod runs, so a fresh node in
# the right zone is rejected for a while. So is a node of a simulation that has a CSINode
# and only the well-known labels.
#
# k8s.io/csi-translation-lib v0.37.1 with k8s.io/component-helpers v0.37.1, package
# storage/volume, whose check kube-scheduler's VolumeBinding applies to the translated
# volume.
. "$(dirname "$0")/lib/go.sh"

expect volume-zone-is-renamed 'as written: zone label alone suffices: true
translated: zone label alone suffices: false, with the label of the driver: true' \
	k8s.io/csi-translation-lib@v0.37.1 k8s.io/component-helpers/storage/volume@v0.37.1 <<'GO'
package main

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"
	csitrans "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"
)

func main() {
	pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{
		PersistentVolumeSource: v1.PersistentVolumeSource{
			AWSElasticBlockStore: &v1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"},
		},
		NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{"eu-west-1a"}}},
		}}}},
	}}
	pv.Name = "data"
	plain := map[string]string{v1.LabelTopologyZone: "eu-west-1a"}
	registered := map[string]string{v1.LabelTopologyZone: "eu-west-1a", "topology.ebs.csi.aws.com/zone": "eu-west-1a"}
	suffices := func(pv *v1.PersistentVolume, labels map[string]string) bool {
		return volume.CheckNodeAffinity(pv, labels) == nil
	}
	fmt.Printf("as written: zone label alone suffices: %v\n", suffices(pv, plain))
	translated, err := csitrans.New().TranslateInTreePVToCSI(klog.Background(), pv)
	if err != nil {
		panic(err)
	}
	fmt.Printf("translated: zone label alone suffices: %v, with the label of the driver: %v\n",
		suffices(translated, plain), suffices(translated, registered))
}
GO
