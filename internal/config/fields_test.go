package config

import (
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// A field's fate is:
//
//	read by PLUGIN, ...     by plugins that Berth has, or by "the queue" or "ingest"
//	barred by PLUGIN, ...   its pod stays pending while these plugins are missing
//	parts                   the parts of its type have rows of their own
//	not read: WHY           kube-scheduler 1.37 ignores it, or nodes need not satisfy it
type fate = string

// podFields holds the fate of each field of a pod's spec. A field of a newer API fails
// the test until somebody has checked which plugins of kube-scheduler read it.
var podFields = map[reflect.Type]map[string]fate{
	reflect.TypeFor[v1.PodSpec](): {
		"Volumes":                       "parts",
		"InitContainers":                "parts",
		"Containers":                    "parts",
		"EphemeralContainers":           "read by NodeDeclaredFeatures",
		"RestartPolicy":                 "not read: the kubelet's",
		"TerminationGracePeriodSeconds": "not read: the kubelet's",
		"ActiveDeadlineSeconds":         "not read: the kubelet's",
		"DNSPolicy":                     "not read: the kubelet's",
		"NodeSelector":                  "read by NodeAffinity",
		"ServiceAccountName":            "not read: admission's",
		"DeprecatedServiceAccount":      "not read: admission's",
		"AutomountServiceAccountToken":  "not read: admission's",
		"NodeName":                      "read by NodeName",
		"HostNetwork":                   "read by NodeDeclaredFeatures",
		"HostPID":                       "not read: the kubelet's",
		"HostIPC":                       "not read: the kubelet's",
		"ShareProcessNamespace":         "not read: the kubelet's",
		"SecurityContext":               "not read: the kubelet's",
		"ImagePullSecrets":              "not read: the kubelet's",
		"Hostname":                      "not read: the kubelet's",
		"Subdomain":                     "not read: the kubelet's",
		"Affinity":                      "parts",
		"SchedulerName":                 "read by ingest",
		"Tolerations":                   "read by TaintToleration, NodeUnschedulable, PodTopologySpread",
		"HostAliases":                   "not read: the kubelet's",
		"PriorityClassName":             "not read: admission turns it into a priority",
		"Priority":                      "read by the queue",
		"DNSConfig":                     "not read: the kubelet's",
		"ReadinessGates":                "not read: the kubelet's",
		"RuntimeClassName":              "not read: admission turns it into overhead, a node selector and tolerations",
		"EnableServiceLinks":            "not read: the kubelet's",
		"PreemptionPolicy":              "read by DefaultPreemption",
		"Overhead":                      "read by NodeResourcesFit, NodeResourcesBalancedAllocation",
		"TopologySpreadConstraints":     "parts",
		"SetHostnameAsFQDN":             "not read: the kubelet's",
		"OS":                            "not read: the kubelet admits by it",
		"HostUsers":                     "read by NodeDeclaredFeatures",
		"SchedulingGates":               "read by SchedulingGates",
		"ResourceClaims":                "barred by DynamicResources",
		"Resources":                     "parts",
		"HostnameOverride":              "not read: the kubelet's",
		"SchedulingGroup":               "read by GangScheduling, TopologyPlacementGenerator",
		"EvictionResponders":            "not read: for those who evict",
	},
	reflect.TypeFor[v1.Container](): {
		"Name":                     "not read: a name",
		"Image":                    "read by ImageLocality",
		"Command":                  "not read: the kubelet's",
		"Args":                     "not read: the kubelet's",
		"WorkingDir":               "not read: the kubelet's",
		"Ports":                    "read by NodePorts",
		"EnvFrom":                  "not read: the kubelet's",
		"Env":                      "not read: the kubelet's",
		"Resources":                "parts",
		"ResizePolicy":             "not read: the kubelet's",
		"RestartPolicy":            "read by NodeResourcesFit, NodePorts",
		"RestartPolicyRules":       "read by NodeDeclaredFeatures",
		"VolumeMounts":             "read by NodeDeclaredFeatures",
		"VolumeDevices":            "not read: the volumes that it names are",
		"LivenessProbe":            "not read: the kubelet's",
		"ReadinessProbe":           "not read: the kubelet's",
		"StartupProbe":             "not read: the kubelet's",
		"Lifecycle":                "not read: the kubelet's",
		"TerminationMessagePath":   "not read: the kubelet's",
		"TerminationMessagePolicy": "not read: the kubelet's",
		"ImagePullPolicy":          "not read: the kubelet's",
		"SecurityContext":          "not read: the kubelet's",
		"Stdin":                    "not read: the kubelet's",
		"StdinOnce":                "not read: the kubelet's",
		"TTY":                      "not read: the kubelet's",
	},
	reflect.TypeFor[v1.ResourceRequirements](): {
		"Limits":   "not read: requests count, and admission makes them of limits; extenders read them, which judge for themselves",
		"Requests": "read by NodeResourcesFit, NodeResourcesBalancedAllocation",
		"Claims":   "not read: they name entries of spec.resourceClaims",
	},
	reflect.TypeFor[v1.Affinity](): {
		"NodeAffinity":    "read by NodeAffinity, PodTopologySpread",
		"PodAffinity":     "read by InterPodAffinity",
		"PodAntiAffinity": "read by InterPodAffinity",
	},
	reflect.TypeFor[v1.TopologySpreadConstraint](): {
		"MaxSkew":            "read by PodTopologySpread",
		"TopologyKey":        "read by PodTopologySpread",
		"WhenUnsatisfiable":  "read by PodTopologySpread",
		"LabelSelector":      "read by PodTopologySpread",
		"MinDomains":         "read by PodTopologySpread",
		"NodeAffinityPolicy": "read by PodTopologySpread",
		"NodeTaintsPolicy":   "read by PodTopologySpread",
		"MatchLabelKeys":     "read by PodTopologySpread",
	},
	reflect.TypeFor[v1.Volume](): {
		"Name":         "not read: a name",
		"VolumeSource": "parts",
	},
	reflect.TypeFor[v1.VolumeSource](): {
		"PersistentVolumeClaim": "read by VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone",
		"Ephemeral":             "read by NodeVolumeLimits, VolumeBinding",
		"GCEPersistentDisk":     "read by VolumeRestrictions, NodeVolumeLimits",
		"AWSElasticBlockStore":  "read by VolumeRestrictions, NodeVolumeLimits",
		"ISCSI":                 "read by VolumeRestrictions",
		"RBD":                   "read by VolumeRestrictions",
		"AzureDisk":             "read by NodeVolumeLimits",
		"Cinder":                "read by NodeVolumeLimits",
		"PortworxVolume":        "read by NodeVolumeLimits",
		"Image":                 "read by ImageLocality",
		"CSI":                   "read by VolumeBinding",
		"AzureFile":             "not read: NodeVolumeLimits does not count it",
		"VsphereVolume":         "not read: NodeVolumeLimits does not count it",
		"HostPath":              "not read: the kubelet's",
		"EmptyDir":              "not read: the kubelet's",
		"GitRepo":               "not read: the kubelet's",
		"Secret":                "not read: the kubelet's",
		"NFS":                   "not read: the kubelet's",
		"Glusterfs":             "not read: the kubelet's",
		"FlexVolume":            "not read: the kubelet's",
		"CephFS":                "not read: the kubelet's",
		"Flocker":               "not read: the kubelet's",
		"DownwardAPI":           "not read: the kubelet's",
		"FC":                    "not read: the kubelet's",
		"ConfigMap":             "not read: the kubelet's",
		"Quobyte":               "not read: the kubelet's",
		"PhotonPersistentDisk":  "not read: the kubelet's",
		"Projected":             "not read: the kubelet's",
		"ScaleIO":               "not read: the kubelet's",
		"StorageOS":             "not read: the kubelet's",
	},
}

// TestEveryFieldIsDecided compares the table with the types, and its bars with the
// plugins.
func TestEveryFieldIsDecided(t *testing.T) {
	gates := gatesWith(t, map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true})
	c, err := Read(Request{Gates: gates})
	if err != nil {
		t.Fatal(err)
	}
	for kind, rows := range podFields {
		for i := range kind.NumField() {
			field := kind.Field(i)
			text, ok := rows[field.Name]
			if !ok {
				t.Errorf("%s.%s is new: find out whether a plugin of kube-scheduler reads it, and bar the pods that have it if Berth lacks the plugin", kind, field.Name)
				continue
			}
			checkFate(t, builtIn(gates, rules{}), kind.String()+"."+field.Name, field.Type, text)
			if spec, ok := having(kind, i); ok {
				want := ""
				if by, isBarred := strings.CutPrefix(text, "barred by "); isBarred {
					want = by
				}
				if got := strings.ReplaceAll(barred(c, spec), " ", ", "); got != want {
					t.Errorf("a pod with %s.%s is barred by %q, want %q", kind, field.Name, got, want)
				}
			}
		}
		for name := range rows {
			if _, ok := kind.FieldByName(name); !ok {
				t.Errorf("%s has no field %s", kind, name)
			}
		}
	}
}

// checkFate checks that the names in a row exist.
func checkFate(t *testing.T, known registry, name string, kind reflect.Type, text fate) {
	by, isRead := strings.CutPrefix(text, "read by ")
	if isRead {
		for plugin := range strings.SplitSeq(by, ", ") {
			if row := known.find(plugin); (row == nil || row.build == nil) && plugin != "the queue" && plugin != "ingest" {
				t.Errorf("%s is read by %s, which is not there", name, plugin)
			}
		}
	}
	switch {
	case text == "parts":
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		if podFields[kind] == nil {
			t.Errorf("the parts of %s, %s, are not in the table", name, kind)
		}
	case !isRead && !strings.HasPrefix(text, "barred by ") && !strings.HasPrefix(text, "not read: "):
		t.Errorf("%s: what is %q?", name, text)
	}
}

// having returns a pod with this field of a spec or a volume. ok is false for fields of
// other types, which no bar concerns.
func having(kind reflect.Type, field int) (spec v1.PodSpec, ok bool) {
	switch kind {
	case reflect.TypeFor[v1.PodSpec]():
		give(reflect.ValueOf(&spec).Elem().Field(field))
		return spec, true
	case reflect.TypeFor[v1.VolumeSource]():
		spec.Volumes = make([]v1.Volume, 1)
		give(reflect.ValueOf(&spec.Volumes[0].VolumeSource).Elem().Field(field))
		return spec, true
	}
	return spec, false
}

// give sets the field: not nil, with one element.
func give(field reflect.Value) {
	switch field.Kind() {
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
	case reflect.String:
		field.SetString("x")
	case reflect.Bool:
		field.SetBool(true)
	}
}
