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

// oneNamed returns the resource and the name of an argument in kubectl's forms: NAME,
// RESOURCE/NAME or RESOURCE NAME. resource is empty if none is given, as in
// NAMESPACE/NAME. ok is false for more than one name.
func oneNamed(args []string) (resource, name string, ok bool) {
	switch len(args) {
	case 1:
		before, after, cut := strings.Cut(args[0], "/")
		if resource = resourceWords[strings.ToLower(before)]; cut && resource != "" && after != "" {
			return resource, after, true
		}
		return "", args[0], true
	case 2:
		if resource = resourceWords[strings.ToLower(args[0])]; resource != "" {
			if again, name, _ := oneNamed(args[1:]); again == "" || again == resource {
				return resource, name, true
			}
		}
	}
	return "", "", false
}

// notAPod is the error for another resource than a pod, with the flags that select its
// pods.
func notAPod(resource, name string) error {
	what := fmt.Sprintf("%s/%s", resource, name)
	switch resource {
	case "node":
		return fmt.Errorf("%q: is a node: name a pod; kubectl berth drain %s shows where the pods of a node would go", what, name)
	case "job":
		return fmt.Errorf("%q: is a Job: name a pod, or select the Job's pods with -l batch.kubernetes.io/job-name=%s", what, name)
	case "statefulset":
		return fmt.Errorf("%q: is a StatefulSet: name a pod, such as %s-0, or select its pods with -l", what, name)
	}
	return fmt.Errorf("%q: is a %s: name a pod, or select its pods with -l and the labels of its selector", what, resource)
}

// nodeNames returns the names of nodes that are given in kubectl's forms: NAME, node/NAME
// or node NAME.
func nodeNames(args []string) []string {
	if len(args) > 1 && resourceWords[args[0]] == "node" {
		args = args[1:]
	}
	names := make([]string, len(args))
	for i, arg := range args {
		names[i] = arg
		if before, after, cut := strings.Cut(arg, "/"); cut && resourceWords[before] == "node" {
			names[i] = after
		}
	}
	return names
}
