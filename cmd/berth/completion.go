package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// completeGates completes the last gate in the value of --feature-gates. Gates that the
// value has already are left out.
func completeGates(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	gates, err := feature.Defaults()
	if err != nil {
		return nil, directive
	}
	pairs := strings.Split(typed, ",")
	before, last := pairs[:len(pairs)-1], pairs[len(pairs)-1]
	name, _, named := strings.Cut(last, "=")
	var values []string
	for _, gate := range gates.Names() {
		given := slices.ContainsFunc(before, func(pair string) bool { return strings.HasPrefix(pair, gate+"=") })
		var ends []string
		switch {
		case given, named && gate != name, !strings.HasPrefix(gate, name):
			continue
		case named:
			ends = []string{gate + "=true", gate + "=false"}
		default:
			ends = []string{gate + "="}
		}
		for _, end := range ends {
			values = append(values, strings.Join(append(slices.Clone(before), end), ","))
		}
	}
	return values, directive
}

// fromFiles returns the cluster of the files on the command line; nil without files, or
// with mistakes in them.
func (in *input) fromFiles() *manifest.Cluster {
	if len(in.files) == 0 || slices.Contains(in.files, "-") {
		return nil
	}
	cluster, err := manifest.Options{}.Read(in.files, nil)
	if err != nil {
		return nil
	}
	return cluster
}

// completeLabels completes the last label of a selector: of nodes or of pods, in the
// files or in the live cluster.
func (in *input) completeLabels(
	cmd *cobra.Command, _ []string, typed string,
) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	before, last := "", typed
	if i := strings.LastIndexByte(typed, ','); i >= 0 {
		before, last = typed[:i+1], typed[i+1:]
	}
	key, _, named := strings.Cut(last, "=")
	found := map[string]bool{}
	for _, labels := range in.labelSets(cmd.Context()) {
		for name, value := range labels {
			switch {
			case named && name == key:
				found[before+name+"="+value] = true
			case !named:
				found[before+name+"="] = true
			}
		}
	}
	var values []string
	for _, value := range slices.Sorted(maps.Keys(found)) {
		if strings.HasPrefix(value, typed) && len(values) < completionNames {
			values = append(values, value)
		}
	}
	return values, directive
}

// labelSets returns the labels of the objects that --selector selects.
func (in *input) labelSets(ctx context.Context) (all []map[string]string) {
	ofNodes := strings.HasPrefix(in.of, "nodes")
	cluster := in.fromFiles()
	switch {
	case cluster != nil && ofNodes:
		for _, node := range cluster.Nodes {
			all = append(all, node.Labels)
		}
	case cluster != nil:
		for _, pod := range cluster.Pods {
			all = append(all, pod.Labels)
		}
	default:
		return in.connection.labelSets(ctx, ofNodes)
	}
	return all
}

// labelSets returns the labels of nodes, or of the namespace's pods, of the live cluster.
func (c *connection) labelSets(ctx context.Context, ofNodes bool) (all []map[string]string) {
	client, ctx, cancel, err := c.completing(ctx)
	if err != nil {
		return nil
	}
	defer cancel()
	if ofNodes {
		list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: completionNames})
		if err != nil {
			return nil
		}
		for i := range list.Items {
			all = append(all, list.Items[i].Labels)
		}
		return all
	}
	namespace, err := c.namespace()
	if err != nil {
		return nil
	}
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: completionNames})
	if err != nil {
		return nil
	}
	for i := range list.Items {
		all = append(all, list.Items[i].Labels)
	}
	return all
}

// pendingNames returns the names of pending pods: NAMESPACE/NAME of files, and NAME in
// the namespace of the live cluster.
func (in *input) pendingNames(ctx context.Context, typed string) (names []string) {
	cluster := in.fromFiles()
	if cluster == nil {
		return in.connection.pendingPods(ctx, typed)
	}
	pending := slices.DeleteFunc(slices.Clone(cluster.Pods), func(p *v1.Pod) bool { return !isPending(p) })
	for _, pod := range pending {
		if strings.HasPrefix(nameOf(pod), typed) && len(names) < completionNames {
			names = append(names, nameOf(pod))
		}
	}
	return names
}

// nodeNames returns the names of nodes, of the files or of the live cluster.
func (in *input) nodeNames(ctx context.Context, typed string) (names []string) {
	cluster := in.fromFiles()
	if cluster == nil {
		return in.connection.nodes(ctx, typed)
	}
	for _, node := range cluster.Nodes {
		if strings.HasPrefix(node.Name, typed) && len(names) < completionNames {
			names = append(names, node.Name)
		}
	}
	return names
}
