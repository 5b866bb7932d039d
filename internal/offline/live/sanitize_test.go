package live

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// confidential is a part of every text that must not be in a snapshot.
const confidential = "confidential"

// confidentialSpec returns the spec of a pod with confidential texts, and with a claim.
func confidentialSpec() v1.PodSpec {
	c := v1.Container{
		Name: "c", Image: "image", Command: []string{confidential}, Args: []string{confidential}, Env: []v1.EnvVar{{Name: "PASSWORD", Value: confidential}},
		EnvFrom: []v1.EnvFromSource{{Prefix: confidential}}, WorkingDir: confidential, LivenessProbe: &v1.Probe{ProbeHandler: v1.ProbeHandler{Exec: &v1.ExecAction{Command: []string{confidential}}}},
		Resources: build.Pod(build.Container("cpu=1")).Spec.Containers[0].Resources, VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: confidential}},
	}
	return v1.PodSpec{
		Containers: []v1.Container{c}, InitContainers: []v1.Container{c}, ImagePullSecrets: []v1.LocalObjectReference{{Name: confidential}}, HostAliases: []v1.HostAlias{{IP: confidential}},
		Volumes: []v1.Volume{
			{Name: "s", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: confidential}}},
			{Name: "m", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: confidential}}}},
			{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
		},
	}
}

// TestSanitize leaves no confidential text in objects, and keeps what decides.
func TestSanitize(t *testing.T) {
	annotated := func() metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: "o", Namespace: "ns", Annotations: map[string]string{
			v1.LastAppliedConfigAnnotation: confidential, "vendor.example/token": confidential, "fakekubernetes.io.example/a": confidential, "fakekubernetes.io/a": confidential, "volume.kubernetes.io/selected-node": "n1",
		}}
	}
	template := v1.PodTemplateSpec{ObjectMeta: annotated(), Spec: confidentialSpec()}
	secret := &v1.SecretReference{Name: confidential}
	for _, test := range []struct {
		object kinds.Object
		keeps  []string
	}{
		{&v1.Pod{ObjectMeta: annotated(), Spec: confidentialSpec(), Status: v1.PodStatus{Conditions: []v1.PodCondition{
			{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "0/3 nodes"}, {Type: v1.PodReady, Status: v1.ConditionTrue},
		}}}, []string{`"cpu":"1"`, `"claimName":"claim"`, `"0/3 nodes"`, `"Ready"`}},
		{&appsv1.ReplicaSet{ObjectMeta: annotated(), Spec: appsv1.ReplicaSetSpec{Template: template}}, []string{`"cpu":"1"`}},
		{&appsv1.StatefulSet{ObjectMeta: annotated(), Spec: appsv1.StatefulSetSpec{Template: template}}, []string{`"cpu":"1"`, `"claimName":"claim"`}},
		{&v1.ReplicationController{ObjectMeta: annotated(), Spec: v1.ReplicationControllerSpec{Template: &template}}, nil},
		{&v1.Service{ObjectMeta: annotated()}, nil},
		{&v1.PersistentVolumeClaim{ObjectMeta: annotated()}, []string{`"volume.kubernetes.io/selected-node":"n1"`}},
		{&v1.PersistentVolume{ObjectMeta: annotated(), Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
			Driver: "csi", VolumeHandle: "handle", VolumeAttributes: map[string]string{"password": confidential}, NodeStageSecretRef: secret, NodePublishSecretRef: secret,
			ControllerPublishSecretRef: secret, ControllerExpandSecretRef: secret, NodeExpandSecretRef: secret,
		}}}}, []string{`"driver":"csi"`}},
	} {
		sanitize(test.object, kinds.Kept(false))
		text, err := json.Marshal(test.object)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), confidential) {
			t.Errorf("%T: %s", test.object, text)
		}
		for _, want := range test.keeps {
			if !strings.Contains(string(text), want) {
				t.Errorf("%T lacks %s: %s", test.object, want, text)
			}
		}
	}
}
