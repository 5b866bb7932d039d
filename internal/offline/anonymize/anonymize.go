// Package anonymize replaces names in the objects of a snapshot.
//
// It takes an object as JSON and a key. It returns the object with every word replaced
// that is not vocabulary of the API: in names, labels, images, taints and all other texts
// that it does not know. It owns nothing but the key. The same key and word give the same
// replacement in every object and snapshot, so references and selectors still match.
// Separators and numbers of up to four digits stay, unless they form an IP address:
// "data-web-0" is still the claim "data" of the pod "web-0". Longer numbers in labels are
// replaced, so the operators Gt and Lt no longer match these. Without the key, trying
// words does not find the original.
//
// It never removes a field, except the messages of conditions.
package anonymize

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
)

// Names replaces words with a key. It is safe for concurrent use.
type Names struct{ key []byte }

// New returns Names for a key.
func New(key string) *Names { return &Names{[]byte(key)} }

// Object returns the object, which is JSON, with its words replaced.
func (n *Names) Object(text []byte) ([]byte, error) {
	var object map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // large numbers stay exact
	if err := decoder.Decode(&object); err != nil {
		return nil, fmt.Errorf("anonymize an object: %w", err)
	}
	n.members(object)
	return json.Marshal(object)
}

// members replaces the words below an object of the API.
func (n *Names) members(object map[string]any) {
	foreign := isForeign(object)
	operator := object["operator"]
	compares := operator == "Gt" || operator == "Lt"
	for key, value := range maps.Clone(object) {
		switch {
		case key == "message":
			delete(object, key)
		case key == "expression":
			object[key] = n.expression(value)
		case slices.Contains(ofDevices, key), key == "capacity" && object["attributes"] != nil:
			object[key] = n.domains(value)
		case key == "matchAttribute", key == "distinctAttribute":
			object[key] = n.qualified(value)
		case slices.Contains(amounts, key), compares && (key == "value" || key == "values"):
			object[key] = n.amounts(value)
		case slices.Contains(keyedMaps, key):
			object[key] = n.keyed(value)
		case foreign && (key == "apiVersion" || key == "apiGroup" || key == "kind"):
			object[key] = n.value(value)
		case !slices.Contains(vocabulary, key) || !isText(value):
			object[key] = n.value(value)
		}
	}
}

// isForeign reports whether an object refers to a kind of an API group that is not of
// Kubernetes, as an owner may be.
func isForeign(object map[string]any) bool {
	group, _ := object["apiGroup"].(string)
	if version, ok := object["apiVersion"].(string); ok {
		group, _, _ = strings.Cut(version, "/")
	}
	return strings.Contains(group, ".") && !ofKubernetes(group)
}

// value replaces the words of a value.
func (n *Names) value(value any) any {
	switch v := value.(type) {
	case string:
		return n.Text(v)
	case []any:
		for i := range v {
			v[i] = n.value(v[i])
		}
	case map[string]any:
		n.members(v)
	}
	return value
}

// keyed replaces the words of a map with keys of the user. The selector of a Service is
// such a map, and other selectors are objects.
func (n *Names) keyed(value any) any {
	all, isMap := value.(map[string]any)
	for _, field := range []string{"matchLabels", "matchExpressions", "nodeSelectorTerms"} {
		if _, isObject := all[field]; isObject {
			isMap = false
		}
	}
	if !isMap {
		return n.value(value)
	}
	for key, value := range maps.Clone(all) {
		delete(all, key)
		all[n.Text(key)] = n.value(value)
	}
	return all
}

// amounts replaces the names of resources, and keeps their amounts. It also serves the
// limit of a CSI driver, which is a number and stays, and the capacity that a claim
// requests, whose names are those of the device's capacity.
func (n *Names) amounts(value any) any {
	switch v := value.(type) {
	case string:
		if quantity.MatchString(v) {
			return v
		}
	case []any:
		for i := range v {
			if _, isText := v[i].(string); isText {
				v[i] = n.amounts(v[i])
			} else {
				v[i] = n.value(v[i]) // the request of a device
			}
		}
		return v
	case map[string]any:
		if requests, ok := v["requests"]; ok {
			v["requests"] = n.domains(requests)
			return v
		}
		if _, isNumber := v["count"].(json.Number); isNumber {
			return v
		}
		for key, value := range maps.Clone(v) {
			delete(v, key)
			v[n.Text(key)] = n.amount(value)
		}
		return v
	}
	return n.value(value)
}

// amount keeps the amounts of one resource.
func (n *Names) amount(value any) any {
	object, ok := value.(map[string]any)
	if !ok {
		return n.amounts(value)
	}
	for key, value := range object {
		object[key] = n.amount(value)
	}
	return object
}

// isText reports whether a value is a text or has texts only.
func isText(value any) bool {
	all, isList := value.([]any)
	if isList {
		return !slices.ContainsFunc(all, func(v any) bool { return !isText(v) })
	}
	_, is := value.(string)
	return is
}

// expression replaces the names of drivers in a CEL expression about devices. Its other
// texts are values of attributes, which a vendor chose.
func (n *Names) expression(value any) any {
	text, ok := value.(string)
	if !ok {
		return value
	}
	return ofDriver.ReplaceAllStringFunc(text, func(match string) string {
		at := ofDriver.FindStringSubmatchIndex(match)
		return match[:at[2]] + n.Text(match[at[2]:at[3]]) + match[at[3]:]
	})
}

// ofDriver matches the name of a driver in an expression.
var ofDriver = regexp.MustCompile(`(?:attributes\[|capacity\[|driver *== *)["']([^"']+)["']`)

// domains replaces the domains in the keys of a device's attributes or capacity, which
// are names of drivers.
func (n *Names) domains(value any) any {
	all, ok := value.(map[string]any)
	if !ok {
		return value
	}
	for key, value := range maps.Clone(all) {
		delete(all, key)
		all[n.qualified(key).(string)] = value
	}
	return all
}

// qualified replaces the domain of an attribute's name. A vendor chose the name.
func (n *Names) qualified(value any) any {
	text, _ := value.(string)
	if domain, name, ok := strings.Cut(text, "/"); ok {
		return n.Text(domain) + "/" + name
	}
	return value
}

// ofDevices are the fields with attributes or capacity of devices.
var ofDevices = []string{"attributes", "counters", "consumedCapacity"}

// amounts are the fields with amounts of resources, most of them by the resource's name.
var amounts = []string{
	"requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources", "maximumVolumeSize",
	"nodeAllocatableResources", "nodeAllocatableResourceMappings",
}

// keyedMaps are the other fields of the API with keys of the user.
var keyedMaps = []string{
	"labels", "annotations", "matchLabels", "nodeSelector", "selector", "parameters", "disruptedPods",
	"volumeAttributes", "mountOptions",
}

// vocabulary are the fields of the API whose texts do not come from the user and stay as
// they are: enumerations and versions. Scheduler names stay, since they must match a
// configuration, and so do the binding conditions of devices, which are types of
// conditions.
var vocabulary = []string{
	"apiVersion", "kind", "apiGroup", "phase", "type", "status", "reason", "operator", "effect", "whenUnsatisfiable",
	"nodeAffinityPolicy", "nodeTaintsPolicy",
	"preemptionPolicy", "restartPolicy", "protocol", "accessModes", "volumeMode", "volumeBindingMode",
	"reclaimPolicy", "persistentVolumeReclaimPolicy",
	"allocationMode", "podManagementPolicy", "unhealthyPodEvictionPolicy", "schedulerName", "resizePolicy",
	"resourceVersion", "kubeletVersion", "declaredFeatures", "bindingConditions", "bindingFailureConditions",
	"bindMountOptions", "keyType", "action",
	"fsGroupPolicy", "volumeLifecycleModes", "operatingSystem", "architecture", "disruptionMode", "policy",
}

// exact are texts that Kubernetes itself gives a meaning. The drivers replace volume
// plugins of Kubernetes, which stay too.
var exact = []string{
	"default", "kube-system", "kube-public", "kube-node-lease", "metadata.name", "system-cluster-critical",
	"system-node-critical", "true", "false", "0.0.0.0", "::",
	"cpu", "memory", "pods", "ephemeral-storage", "storage",
	"ebs.csi.aws.com", "pd.csi.storage.gke.io", "disk.csi.azure.com", "file.csi.azure.com", "cinder.csi.openstack.org",
	"csi.vsphere.vmware.com", "pxd.portworx.com",
	v1.MirrorPodAnnotationKey,
}

// kept are words with a meaning wherever they stand: the tag of an image, and the parts
// of the ID of an EBS volume.
var kept = []string{"latest", "aws", "vol"}

var (
	word     = regexp.MustCompile(`[A-Za-z0-9]+`)
	number   = regexp.MustCompile(`^[0-9]{1,4}$`)
	quantity = regexp.MustCompile(`^[+-]?[0-9.]+([eE][+-]?[0-9]+|[numkKMGTPE]|[KMGTPE]i)?$`)
	// address matches an IPv4 address, also as the part ip-10-0-3-17 of a node's name.
	address = regexp.MustCompile(`\b[0-9]{1,3}(?:[.-][0-9]{1,3}){3,}\b`)
)

// Text replaces the words of a text. Texts of Kubernetes and times stay.
func (n *Names) Text(text string) string {
	domain, name, hasDomain := strings.Cut(text, "/")
	switch {
	case text == "", slices.Contains(exact, text), strings.HasPrefix(text, v1.ResourceHugePagesPrefix):
		return text
	case hasDomain && ofKubernetes(domain):
		return n.ofKubernetes(domain, name)
	case net.ParseIP(text) != nil:
		return n.hash(text, wordBytes)
	}
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		return text
	}
	parts := strings.Split(text, "/")
	for i := range parts {
		parts[i] = n.part(parts[i])
	}
	return strings.Join(parts, "/")
}

// ofKubernetes replaces the user's part of a name in a domain of Kubernetes: roles and
// restrictions of nodes, and classes of devices.
func (n *Names) ofKubernetes(domain, name string) string {
	const restriction = "node-restriction.kubernetes.io"
	owner, restricted := strings.CutSuffix(domain, "."+restriction)
	switch {
	case restricted:
		return n.part(owner) + "." + restriction + "/" + n.Text(name)
	case domain == restriction, domain+"/" == resourcev1.ResourceDeviceClassPrefix:
		return domain + "/" + n.Text(name)
	case domain == "node-role.kubernetes.io" && name != "control-plane" && name != "master":
		return domain + "/" + n.Text(name)
	}
	return domain + "/" + name
}

// part replaces the words of a text without a slash.
func (n *Names) part(text string) string {
	if slices.Contains(exact, text) {
		return text
	}
	replaced := n.around(text, address.FindAllStringIndex(text, -1))
	// Labels and most names have a limit. A longer text has no relation to others.
	if len(replaced) > v1LabelMax && len(text) <= v1LabelMax {
		return n.hash(text, longBytes)
	}
	return replaced
}

// around replaces the addresses of a text as a whole, and the words between them.
func (n *Names) around(text string, addresses [][]int) string {
	var b strings.Builder
	from := 0
	for _, at := range addresses {
		b.WriteString(n.words(text[from:at[0]]) + n.hash(text[at[0]:at[1]], wordBytes))
		from = at[1]
	}
	return b.String() + n.words(text[from:])
}

// words replaces each word, except short numbers.
func (n *Names) words(text string) string {
	return word.ReplaceAllStringFunc(text, func(w string) string {
		if number.MatchString(w) || slices.Contains(kept, w) {
			return w
		}
		return n.hash(w, wordBytes)
	})
}

// ofKubernetes reports whether a domain is a domain of Kubernetes, or below it.
func ofKubernetes(domain string) bool {
	return slices.ContainsFunc([]string{"kubernetes.io", "k8s.io", "x-k8s.io"}, func(of string) bool {
		return domain == of || strings.HasSuffix(domain, "."+of)
	})
}

const (
	v1LabelMax = 63 // the longest value of a label
	wordBytes  = 4
	longBytes  = 12
)

// hash returns a word that begins with a letter.
func (n *Names) hash(text string, bytes int) string {
	mac := hmac.New(sha256.New, n.key)
	mac.Write([]byte(text))
	return "x" + hex.EncodeToString(mac.Sum(nil)[:bytes])
}
