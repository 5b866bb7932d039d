package scenario

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// attribute is one KEY=VALUE of a node or pod.
type attribute[T any] struct {
	// key is the word before "=". A key with a final dot is a prefix, and apply receives
	// the rest of the word.
	key string
	// bare attributes may omit "=VALUE"; the value is then "true".
	bare bool
	// value describes the valid values, for errors.
	value string
	apply func(to T, rest, value string) error
}

// none clears the list that an attribute adds to.
const none = "none"

// applyAll applies attributes in order.
func applyAll[T any](table []attribute[T], kind string, to T, words []string) error {
	for _, word := range words {
		if err := applyOne(table, kind, to, word); err != nil {
			return err
		}
	}
	return nil
}

func applyOne[T any](table []attribute[T], kind string, to T, word string) error {
	key, value, valued := strings.Cut(word, "=")
	for _, a := range table {
		rest, ok := matches(a.key, key)
		if !ok {
			continue
		}
		if !valued {
			if !a.bare {
				return fmt.Errorf("%s attribute %q has no value; want %s=%s", kind, word, key, a.value)
			}
			value = "true"
		}
		if err := a.apply(to, rest, value); err != nil {
			return fmt.Errorf("%s attribute %q: %w; want %s=%s", kind, word, err, key, a.value)
		}
		return nil
	}
	var known []string
	for _, a := range table {
		known = append(known, a.key)
	}
	return fmt.Errorf("unknown %s attribute %q; want one of %s", kind, word, oneOf(known))
}

// resourceKey represents any extended resource or huge page in the tables.
const resourceKey = "DOMAIN/RESOURCE"

func matches(pattern, key string) (rest string, ok bool) {
	switch {
	case pattern == resourceKey:
		return key, strings.Contains(key, "/") || strings.HasPrefix(key, v1.ResourceHugePagesPrefix)
	case strings.HasSuffix(pattern, "."):
		return strings.CutPrefix(key, pattern)
	}
	return "", key == pattern
}

func truth(value string) (bool, error) {
	switch value {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is neither true nor false", value)
}

// resourceNamed returns the resource for a short word.
func resourceNamed(word string) v1.ResourceName {
	switch word {
	case "mem":
		return v1.ResourceMemory
	case "ephemeral":
		return v1.ResourceEphemeralStorage
	}
	return v1.ResourceName(word)
}

func setAmount(list *v1.ResourceList, name v1.ResourceName, value string) error {
	if value == none {
		delete(*list, name)
		return nil
	}
	q, err := resource.ParseQuantity(value)
	if err != nil {
		return fmt.Errorf("%q is not a quantity", value)
	}
	if *list == nil {
		*list = v1.ResourceList{}
	}
	(*list)[name] = q
	return nil
}

// labelKeys are short words for well-known labels.
var labelKeys = map[string]string{
	"zone":     v1.LabelTopologyZone,
	"region":   v1.LabelTopologyRegion,
	"hostname": v1.LabelHostname,
}

func labelKey(word string) string {
	if key, ok := labelKeys[word]; ok {
		return key
	}
	return word
}

// appLabel is the label that the replicas of one app share.
const appLabel = "app"

// labelsFirst moves the words that change labels to the front, because other words may
// read labels.
func labelsFirst(words []string) []string {
	var labels, rest []string
	for _, word := range words {
		if strings.HasPrefix(word, "label.") || strings.HasPrefix(word, "unlabel=") {
			labels = append(labels, word)
		} else {
			rest = append(rest, word)
		}
	}
	return append(labels, rest...)
}

func setLabel(labels *map[string]string, key, value string) {
	if *labels == nil {
		*labels = map[string]string{}
	}
	(*labels)[labelKey(key)] = value
}
