package live

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// confidential is the text in every field of the objects.
const confidential = "confidential"

// fill sets every field below a value: texts to confidential, numbers to 1. A list has
// one element, and a list of volumes has one volume of each source.
func fill(v reflect.Value) {
	switch at := v.Addr().Interface().(type) {
	case *resource.Quantity:
		*at = resource.MustParse("1")
		return
	case *metav1.Time:
		*at = metav1.Unix(1, 0)
		return
	case *metav1.MicroTime:
		return
	case *metav1.FieldsV1:
		at.SetRawString(`{"f:confidential":{}}`)
		return
	case *runtime.RawExtension:
		at.Raw = []byte(`{"confidential":"confidential"}`)
		return
	case *intstr.IntOrString:
		*at = intstr.FromInt32(1)
		return
	case *[]v1.Volume:
		*at = volumes()
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(confidential)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint('c')
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	}
}

// oneOfEach returns a value for each pointer of a struct with alternatives, with that
// pointer filled only.
func oneOfEach[T any]() (all []T) {
	for i := range reflect.TypeFor[T]().NumField() {
		var one T
		fill(reflect.ValueOf(&one).Elem().Field(i))
		all = append(all, one)
	}
	return all
}

func volumes() (all []v1.Volume) {
	for _, source := range oneOfEach[v1.VolumeSource]() {
		all = append(all, v1.Volume{Name: confidential, VolumeSource: source})
	}
	return all
}

// where returns the paths of an object's fields with a confidential text.
func where(t *testing.T, object any) []string {
	text, err := json.Marshal(object)
	var decoded any
	if err != nil || json.Unmarshal(text, &decoded) != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	var visit func(path string, value any)
	visit = func(path string, value any) {
		switch v := value.(type) {
		case string:
			found[path] = found[path] || strings.Contains(v, confidential)
		case []any:
			for _, one := range v {
				visit(path, one)
			}
		case map[string]any:
			for key, one := range v {
				if strings.Contains(key, confidential) {
					found[path] = true
					visit(path, one)
					continue
				}
				visit(strings.TrimPrefix(path+"."+key, "."), one)
			}
		}
	}
	visit("", decoded)
	maps.DeleteFunc(found, func(_ string, is bool) bool { return !is })
	return slices.Sorted(maps.Keys(found))
}

// ofPod matches the fields of a pod's spec that scheduling reads.
const ofPod = `(affinity|tolerations|topologySpreadConstraints|resourceClaims|schedulingGates|schedulingGroup|nodeSelector|overhead)\b.*` +
	`|(nodeName|schedulerName|priorityClassName|runtimeClassName|preemptionPolicy|restartPolicy|os\.name|resources\..*)` +
	`|(initContainers|containers)\.(name|image|restartPolicy|restartPolicyRules\..*|ports\..*|resources\..*|resizePolicy\..*|volumeMounts\.bindMountOptions)` +
	`|ephemeralContainers\.(name|volumeMounts\.bindMountOptions)` +
	`|volumes\.(name|persistentVolumeClaim\.claimName|image\.reference|csi\.driver|gcePersistentDisk\.pdName|awsElasticBlockStore\.volumeID|iscsi\.iqn` +
	`|rbd\.(monitors|image|pool)|azureDisk\.(diskName|diskURI|kind)|cinder\.volumeID|portworxVolume\.volumeID` +
	`|ephemeral\.volumeClaimTemplate\.(metadata\.labels|spec\.(accessModes|selector.*|resources.*|storageClassName|volumeMode|volumeAttributesClassName)))`

// stays are, by kind, the fields whose texts may be in a snapshot, besides those in
// staysInAll. A snapshot shows the names of objects and the texts that are compared.
var stays = map[string]string{
	"Pod": `metadata\.(labels|ownerReferences.*)|spec\.(` + ofPod + `)|status\.(phase|nominatedNodeName|resize|resources.*|allocatedResources|` +
		`(c|initC)ontainerStatuses\.(name|resources.*|allocatedResources)|resourceClaimStatuses.*|extendedResourceClaimStatus.*|nodeAllocatableResourceClaimStatuses.*)`,
	"Node":                  `metadata\.labels|spec\.taints.*|status\.(capacity|allocatable|images\.names|conditions\.(type|status)|declaredFeatures|nodeInfo\.kubeletVersion)|spec\.podPreemptionPolicy.*`,
	"ReplicaSet":            ofController,
	"ReplicationController": ofController,
	"StatefulSet":           ofController + `|spec\.(podManagementPolicy|volumeClaimTemplates\.(` + staysInAll + `|metadata\.(labels|ownerReferences.*)|status\.phase|spec\.(` + ofClaim + `)))`,
	"PersistentVolume": `metadata\.labels|status\.phase|spec\.(capacity|accessModes|claimRef.*|storageClassName|volumeMode|nodeAffinity.*|volumeAttributesClassName|` +
		`persistentVolumeReclaimPolicy|csi\.(driver|volumeHandle)|awsElasticBlockStore\.volumeID|gcePersistentDisk\.pdName|azureDisk\.(diskName|diskURI|kind)|` +
		`cinder\.volumeID|portworxVolume\.volumeID)`,
	"PersistentVolumeClaim": `metadata\.ownerReferences.*|status\.phase|spec\.(` + ofClaim + `)`,
	"StorageClass":          `metadata\.labels|provisioner|volumeBindingMode|reclaimPolicy|allowedTopologies.*`,
	"CSINode":               `metadata\.labels|spec\.drivers\.(name|topologyKeys)`,
	"CSIDriver":             `metadata\.labels`,
	"CSIStorageCapacity":    `metadata\.labels|nodeTopology.*|storageClassName`,
	"PodDisruptionBudget":   `metadata\.labels|spec\.(selector.*|unhealthyPodEvictionPolicy)|status\.disruptedPods`,
	"VolumeAttachment":      `metadata\.labels|spec\.(attacher|nodeName|source\.persistentVolumeName)`,
	"ResourceClaim": `metadata\.ownerReferences.*|spec\.devices\.(requests|constraints)\..*|status\.(reservedFor.*|allocation\.(devices\.results\..*|nodeSelector.*)|` +
		`devices\.(driver|pool|device|shareID|conditions\.(type|status|reason)))`,
	"ResourceClaimTemplate": `metadata\.labels|spec\.(metadata\.labels|spec\.devices\.(requests|constraints)\..*)`,
	"ResourceSlice":         `metadata\.labels|spec\..*`,
	"DeviceClass":           `metadata\.labels|spec\.(selectors\..*|extendedResourceName|managementPolicy)`,
	"DeviceTaintRule":       `metadata\.labels|spec\..*`,
	"PodGroup":              `metadata\.labels|spec\..*|status\.resourceClaimStatuses\..*`,
	"CompositePodGroup":     `metadata\.labels|spec\..*`,
	"PriorityClass":         `metadata\.labels|preemptionPolicy`,
	"Namespace":             `metadata\.labels`,
	"Service":               `metadata\.labels|spec\.selector`,
}

const (
	staysInAll = `apiVersion|kind|metadata\.(name|namespace|uid|resourceVersion)`
	// ofController matches the fields of a controller and its template of pods.
	ofController = `metadata\.(labels|ownerReferences.*)|spec\.(selector.*|template\.(metadata\.(name|namespace|uid|labels|resourceVersion|ownerReferences.*)|` +
		`spec\.(` + ofPod + `)))`
	ofClaim = `accessModes|selector.*|volumeName|storageClassName|volumeMode|volumeAttributesClassName|resources\.requests`
)

// TestSanitize fills every field of every kind with a confidential text. Only fields that
// a decision or a simulation reads may stay.
func TestSanitize(t *testing.T) {
	objects := []kinds.Object{new(schedulingv1.PriorityClass), new(resourcev1.ResourceClaimTemplate)}
	for kind := range model.KindCount {
		objects = append(objects, kinds.Get(model.Kind(kind)).New())
	}
	for _, object := range objects {
		of := reflect.ValueOf(object).Elem()
		name := of.Type().Name()
		allowed := regexp.MustCompile(`^(` + staysInAll + `|` + stays[name] + `)$`)
		fill(of)
		variants := []kinds.Object{object}
		if pv, is := object.(*v1.PersistentVolume); is {
			for _, source := range oneOfEach[v1.PersistentVolumeSource]() {
				one := pv.DeepCopy()
				one.Spec.PersistentVolumeSource = source
				variants = append(variants, one)
			}
		}
		for _, variant := range variants {
			sanitize(variant, kinds.Kept(false))
			for _, path := range where(t, variant) {
				if !allowed.MatchString(path) {
					t.Errorf("%s: the text of %s stays", name, path)
				}
			}
		}
	}
}

// TestSanitizeKeeps keeps the fields on which decisions depend.
func TestSanitizeKeeps(t *testing.T) {
	annotated := metav1.ObjectMeta{Name: "o", Namespace: "ns", Annotations: map[string]string{"volume.kubernetes.io/selected-node": "n1", "external-dns.alpha.kubernetes.io/hostname": confidential,
		"volume.kubernetes.io/provisioner-deletion-secret-name": confidential, v1.LastAppliedConfigAnnotation: confidential}}
	class, grace, one := "fast", int64(7), int32(1)
	oci := &v1.SeccompProfile{Type: "OCI"}
	c := v1.Container{
		Name: "c", Image: "image", Resources: build.Pod(build.Container("cpu=1")).Spec.Containers[0].Resources, Ports: []v1.ContainerPort{{HostPort: 80}},
		VolumeMounts: []v1.VolumeMount{{Name: "v", BindMountOptions: []string{"noexec"}}}, SecurityContext: &v1.SecurityContext{SeccompProfile: oci},
		RestartPolicyRules: []v1.ContainerRestartRule{{Action: "Restart"}},
	}
	spec := v1.PodSpec{
		Containers: []v1.Container{c}, SecurityContext: &v1.PodSecurityContext{SeccompProfile: oci}, TerminationGracePeriodSeconds: &grace,
		EphemeralContainers: []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{Name: "debug", SecurityContext: &v1.SecurityContext{SeccompProfile: oci}}}},
		Volumes: []v1.Volume{
			{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
			{Name: "e", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: v1.PersistentVolumeClaimSpec{StorageClassName: &class}}}}},
			{Name: "p", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{PodCertificate: &v1.PodCertificateProjection{KeyType: "MLDSA65"}}}}}},
			{Name: "d", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		},
	}
	ofSpec := []string{`"cpu":"1"`, `"hostPort":80`, `"claimName":"claim"`, `"storageClassName":"fast"`, `"noexec"`, `"Restart"`, `"debug"`, `"keyType":"MLDSA65"`, `"emptyDir"`, `"terminationGracePeriodSeconds":7`}
	template := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: spec}
	for _, test := range []struct {
		object kinds.Object
		keeps  []string
	}{
		{&v1.Pod{ObjectMeta: annotated, Spec: *spec.DeepCopy(), Status: v1.PodStatus{Conditions: []v1.PodCondition{
			{Type: v1.PodScheduled, Status: v1.ConditionFalse, Message: "0/3 nodes"}, {Type: v1.PodReady, Status: v1.ConditionTrue},
		}}}, append([]string{`"0/3 nodes"`, `"Ready"`}, ofSpec...)},
		{&v1.Node{Status: v1.NodeStatus{DeclaredFeatures: []string{"F"}, NodeInfo: v1.NodeSystemInfo{KubeletVersion: "v1.38.0", MachineID: confidential}}}, []string{`"v1.38.0"`, `"F"`}},
		{&appsv1.ReplicaSet{ObjectMeta: annotated, Spec: appsv1.ReplicaSetSpec{Replicas: &one, Template: *template.DeepCopy()}}, append([]string{`"app":"web"`, `"replicas":1`}, ofSpec...)},
		{&appsv1.StatefulSet{ObjectMeta: annotated, Spec: appsv1.StatefulSetSpec{Replicas: &one, Template: *template.DeepCopy()}}, append([]string{`"app":"web"`, `"replicas":1`}, ofSpec...)},
		{&v1.ReplicationController{ObjectMeta: annotated, Spec: v1.ReplicationControllerSpec{Template: template.DeepCopy()}}, append([]string{`"app":"web"`}, ofSpec...)},
		{&v1.PersistentVolumeClaim{ObjectMeta: annotated}, []string{`"volume.kubernetes.io/selected-node":"n1"`}},
		{&storagev1.CSINode{Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d", NodeID: confidential, TopologyKeys: []string{"zone"}, Allocatable: &storagev1.VolumeNodeResources{Count: &one}}}}}, []string{`"zone"`, `"count":1`}},
	} {
		sanitize(test.object, kinds.Kept(false))
		text, err := json.Marshal(test.object)
		if err != nil || strings.Contains(string(text), confidential) {
			t.Errorf("%T: %s, %v", test.object, text, err)
		}
		oci := strings.Count(string(text), `"OCI"`)
		if want := strings.Count(fmt.Sprint(test.keeps), "noexec") * 3; oci != want {
			t.Errorf("%T has %d OCI profiles, want %d: %s", test.object, oci, want, text)
		}
		for _, want := range test.keeps {
			if !strings.Contains(string(text), want) {
				t.Errorf("%T lacks %s: %s", test.object, want, text)
			}
		}
	}
}
