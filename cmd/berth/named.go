package main

import (
	"fmt"
	"strings"
)

// resourceWords are kubectl's names of resources that users type before a name.
var resourceWords = map[string]string{
	"pod": "pod", "pods": "pod", "po": "pod",
	"node": "node", "nodes": "node", "no": "node",
	"podgroup": "podgroup", "podgroups": "podgroup",
	"job": "job", "jobs": "job",
	"deployment": "deployment", "deployments": "deployment", "deploy": "deployment",
	"statefulset": "statefulset", "statefulsets": "statefulset", "sts": "statefulset",
	"replicaset": "replicaset", "replicasets": "replicaset", "rs": "replicaset",
	"daemonset": "daemonset", "daemonsets": "daemonset", "ds": "daemonset",
}

// resourceKinds are the kinds of resources in messages.
var resourceKinds = map[string]string{
	"node": "node", "podgroup": "pod group", "job": "Job", "deployment": "Deployment",
	"statefulset": "StatefulSet", "replicaset": "ReplicaSet", "daemonset": "DaemonSet",
}

// oneNamed returns the resource and the name of an argument in kubectl's forms: NAME,
// RESOURCE/NAME or RESOURCE NAME. resource is empty if none is given, as in
// NAMESPACE/NAME. ok is false for more than one name.
//
// A namespace may be named as a resource, such as jobs. In one argument only pods and pod
// groups therefore take precedence over a namespace. A name of its own is not split.
func oneNamed(args []string) (resource, name string, ok bool) {
	switch len(args) {
	case 1:
		before, after, _ := strings.Cut(args[0], "/")
		resource = resourceWords[strings.ToLower(before)]
		canBeNamespace := before == strings.ToLower(before) && !strings.Contains(after, "/")
		first := resource == "pod" || resource == "podgroup" || resource != "" && !canBeNamespace
		if first && after != "" {
			return resource, after, true
		}
		return "", args[0], true
	case 2:
		resource = resourceWords[strings.ToLower(args[0])]
		return resource, args[1], resource != ""
	}
	return "", "", false
}

// notAPod is the error for another resource than a pod, with the flags that select its
// pods.
func notAPod(resource, name string) error {
	return fmt.Errorf("%q: is a %s: %s", resource+"/"+name, resourceKinds[resource], podsOf(resource, name))
}

// podsOf says how to name the pods of a resource.
func podsOf(resource, name string) string {
	switch resource {
	case "node":
		return fmt.Sprintf("name a pod; kubectl berth drain node/%s shows where the pods of a node would go", name)
	case "job":
		return "name a pod, or select the Job's pods with -l batch.kubernetes.io/job-name=" + name
	case "statefulset":
		return fmt.Sprintf("name a pod, such as %s-0, or select its pods with -l", name)
	}
	return "name a pod, or select its pods with -l and the labels of its selector"
}

// wordHint is the end of an error about a pod that was not found, if its namespace is
// kubectl's name of another resource.
func wordHint(pod string) string {
	namespace, name, _ := strings.Cut(pod, "/")
	resource := resourceWords[namespace]
	if resource == "" || resource == "pod" || name == "" {
		return ""
	}
	return fmt.Sprintf("; berth explain takes pods: for a %s, %s", resourceKinds[resource], podsOf(resource, name))
}

// nodeNames returns the names of nodes that are given in kubectl's forms: NAME, node/NAME
// or node NAME.
func nodeNames(args []string) []string {
	isNode := func(word string) bool { return resourceWords[strings.ToLower(word)] == "node" }
	if len(args) > 1 && isNode(args[0]) {
		args = args[1:]
	}
	names := make([]string, len(args))
	for i, arg := range args {
		names[i] = arg
		if before, after, _ := strings.Cut(arg, "/"); after != "" && isNode(before) {
			names[i] = after
		}
	}
	return names
}
