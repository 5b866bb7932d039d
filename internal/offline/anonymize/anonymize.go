// Package anonymize replaces names in the objects of a snapshot.
//
// It takes an object as JSON and a key. It returns the object with every word replaced
// that is not vocabulary of the API: in names, labels, images, taints and all other texts
// that it does not know. It owns nothing but the key. The same key and word give the same
// replacement in every object and snapshot, so references and selectors still match, and
// a decision stays the same. Separators and numbers of up to four digits stay:
// "data-web-0" is still the claim "data" of the pod "web-0". Without the key, trying
// words does not find the original.
//
// It never removes a field, except the messages of conditions.
package anonymize

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Names replaces words with a key. It is safe for concurrent use.
type Names struct{ key []byte }

// New returns Names for a key.
func New(key string) *Names { return &Names{[]byte(key)} }

// Object returns the object, which is JSON, with its words replaced.
func (n *Names) Object(text []byte) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("anonymize an object: %w", err)
	}
	n.members(object, false)
	return json.Marshal(object)
}

// members replaces the words below an object of the API. If anyKey is set, the keys are
// words, too: the object is a map with keys of the user.
func (n *Names) members(object map[string]any, anyKey bool) {
	for key, value := range maps.Clone(object) {
		switch {
		case anyKey:
			delete(object, key)
			object[n.Text(key)] = n.value(value, false)
		case key == "message":
			delete(object, key)
		case key == "expression":
			object[key] = n.expression(value)
		case key == "attributes", key == "capacity" && object["attributes"] != nil: // of a device
			object[key] = n.domains(value)
		case !slices.Contains(vocabulary, key) || !isText(value):
			object[key] = n.value(value, slices.Contains(keyedMaps, key))
		}
	}
}

// value replaces the words of a value. If anyKey is set and the value is an object, its
// keys are words.
func (n *Names) value(value any, anyKey bool) any {
	switch v := value.(type) {
	case string:
		return n.Text(v)
	case []any:
		for i := range v {
			v[i] = n.value(v[i], anyKey)
		}
	case map[string]any:
		// The selector of a Service is a map of labels, and all others are objects.
		_, isObject := v["matchLabels"]
		_, hasExpressions := v["matchExpressions"]
		_, hasTerms := v["nodeSelectorTerms"]
		n.members(v, anyKey && !isObject && !hasExpressions && !hasTerms)
	}
	return value
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
		if domain, name, qualified := strings.Cut(key, "/"); qualified {
			delete(all, key)
			all[n.Text(domain)+"/"+name] = value
		}
	}
	return all
}

// keyedMaps are the fields of the API with keys of the user.
var keyedMaps = []string{
	"labels", "annotations", "matchLabels", "nodeSelector", "selector", "parameters", "requests", "limits",
	"allocatable", "capacity", "overhead",
	"allocatedResources", "volumeAttributes", "mountOptions",
}

// vocabulary are the fields of the API whose texts are no names of the user: enumerations
// and versions. Scheduler names must match a configuration.
var vocabulary = []string{
	"apiVersion", "kind", "apiGroup", "phase", "type", "status", "reason", "operator", "effect", "whenUnsatisfiable",
	"nodeAffinityPolicy", "nodeTaintsPolicy",
	"preemptionPolicy", "restartPolicy", "protocol", "accessModes", "volumeMode", "volumeBindingMode",
	"reclaimPolicy", "persistentVolumeReclaimPolicy",
	"allocationMode", "podManagementPolicy", "unhealthyPodEvictionPolicy", "schedulerName", "resizePolicy",
	"resourceVersion",
	"fsGroupPolicy", "volumeLifecycleModes", "operatingSystem", "architecture", "disruptionMode", "policy",
}

// exact are texts that Kubernetes itself gives a meaning.
var exact = []string{
	"default", "kube-system", "kube-public", "kube-node-lease", "metadata.name", "system-cluster-critical",
	"system-node-critical",
	"cpu", "memory", "pods", "ephemeral-storage", "storage",
	v1.MirrorPodAnnotationKey,
}

var (
	word     = regexp.MustCompile(`[A-Za-z0-9]+`)
	number   = regexp.MustCompile(`^[0-9]{1,4}$`)
	quantity = regexp.MustCompile(`^[+-]?[0-9.]+([eE][+-]?[0-9]+|[numkKMGTPE]|[KMGTPE]i)?$`)
)

// Text replaces the words of a text. Texts of Kubernetes, times and quantities stay.
func (n *Names) Text(text string) string {
	domain, _, hasDomain := strings.Cut(text, "/")
	switch {
	case text == "", slices.Contains(exact, text), quantity.MatchString(text),
		strings.HasPrefix(text, v1.ResourceHugePagesPrefix):
		return text
	case hasDomain && (isOfKubernetes(domain, "kubernetes.io") || isOfKubernetes(domain, "k8s.io")):
		return text
	}
	if _, err := time.Parse(time.RFC3339, text); err == nil {
		return text
	}
	replaced := word.ReplaceAllStringFunc(text, func(w string) string {
		if number.MatchString(w) || w == "latest" {
			return w
		}
		return n.hash(w, wordBytes)
	})
	// Labels and most names have a limit. A longer text has no relation to others.
	if len(replaced) > v1LabelMax && len(text) <= v1LabelMax {
		return n.hash(text, longBytes)
	}
	return replaced
}

// isOfKubernetes reports whether a domain is a domain of Kubernetes, or below it.
func isOfKubernetes(domain, of string) bool {
	return domain == of || strings.HasSuffix(domain, "."+of)
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
