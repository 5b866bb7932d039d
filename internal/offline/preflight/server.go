package preflight

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
)

// version checks the API server's version. A scheduler must not be newer than the API
// server, and may be one minor version older.
func version(client kubernetes.Interface) (Row, error) {
	const check = "version"
	have, err := client.Discovery().ServerVersion()
	if err != nil {
		return Row{}, fmt.Errorf("read the version of the API server: %w", err)
	}
	minor, err := strconv.Atoi(strings.TrimRight(have.Minor, "+"))
	if err != nil || have.Major != "1" {
		return Row{check, Fail, fmt.Sprintf("the API server reports version %s, which is not a version of Kubernetes 1", have.GitVersion), "check the server address of the kubeconfig"}, nil
	}
	message := fmt.Sprintf("the API server is %s, Berth takes the place of kube-scheduler 1.%d", have.GitVersion, min(max(minor, Minor), Newest))
	switch {
	case minor < Minor:
		return Row{check, Fail, message, fmt.Sprintf("update the API server to 1.%d first: a scheduler must not be newer", Minor)}, nil
	case minor > Newest+1:
		return Row{check, Fail, message, "use a newer Berth: a scheduler may be one minor version older than the API server"}, nil
	case minor > Newest:
		return Row{check, Warn, message, "nothing, for the time of an update: it is one minor version older, as a scheduler may be"}, nil
	case minor > Minor:
		return Row{check, Warn, message, fmt.Sprintf("read docs/versions.md: the plugins decide as in 1.%d; gates, fields, metrics and pod groups are those of 1.%d", minor, Minor)}, nil
	}
	return Row{check, Pass, message, ""}, nil
}

// served checks that the API server serves the kinds that plugins read.
func served(client kubernetes.Interface, scheduler *config.Config) []Row {
	const check = "kinds"
	// lists are the resources by group and version; nil for a version that is not served.
	lists := map[string]map[string]bool{}
	var rows []Row
	for _, kind := range scheduler.Reads() {
		resource := kinds.Get(kind).Resource
		version := resource.GroupVersion().String()
		if _, asked := lists[version]; !asked {
			list, err := client.Discovery().ServerResourcesForGroupVersion(version)
			switch {
			case apierrors.IsNotFound(err):
				lists[version] = nil
			case err != nil:
				return []Row{{check, Fail, fmt.Sprintf("the API server does not list its resources of %s: %v", version, err), "look at the API server"}}
			default:
				lists[version] = map[string]bool{}
				for i := range list.APIResources {
					lists[version][list.APIResources[i].Name] = true
				}
			}
		}
		if lists[version][resource.Resource] {
			continue
		}
		row := Row{check, Fail, fmt.Sprintf("the API server does not serve %s in %s, which plugins read", resource.Resource, version),
			"enable the API (--runtime-config of the API server), or switch off the plugin or the feature gate that reads it"}
		if resource.Group == "resource.k8s.io" {
			row.Status, row.Do = Warn, "nothing: it is not waited for, and without it no pod gets a device of it"
		}
		rows = append(rows, row)
	}
	if rows == nil {
		rows = []Row{{check, Pass, fmt.Sprintf("all %d kinds that plugins read are served", len(scheduler.Reads())), ""}}
	}
	return rows
}

// present inspects the pods of a kube-scheduler for flags that the checks depend on.
func present(ctx context.Context, client kubernetes.Interface, r *Request) []Row {
	const check = "scheduler"
	list, err := client.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{LabelSelector: "component=kube-scheduler", Limit: 10})
	if err != nil {
		return []Row{{check, Warn, fmt.Sprintf("the present scheduler's flags cannot be seen: %v", err), "give its configuration with --config and its gates with --feature-gates"}}
	}
	if len(list.Items) == 0 {
		return []Row{{check, Warn, "no pod of kube-system has the label component=kube-scheduler, so the present scheduler's flags cannot be seen",
			"give its configuration with --config and its gates with --feature-gates"}}
	}
	var rows []Row
	for i := range list.Items {
		rows = append(rows, flagsOf(&list.Items[i], r)...)
	}
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Message, b.Message) })
	rows = slices.Compact(rows)
	if rows == nil {
		rows = []Row{{check, Pass, fmt.Sprintf("%d pods run the present scheduler, with flags that match", len(list.Items)), ""}}
	}
	return rows
}

// flagsOf compares the flags of a scheduler's pod with the given configuration and gates.
func flagsOf(pod *v1.Pod, r *Request) []Row {
	const check = "scheduler"
	var rows []Row
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		if tag := tagOf(c.Image); strings.HasPrefix(tag, "v1.") && !slices.ContainsFunc(config.Releases(), func(known config.Release) bool { return strings.HasPrefix(tag, "v"+known.String()+".") }) {
			rows = append(rows, Row{check, Warn, "the present scheduler's image is " + c.Image, fmt.Sprintf("Berth decides like 1.%d to 1.%d: read what changed since then", Minor, Newest)})
		}
		for _, word := range slices.Concat(c.Command, c.Args) {
			name, value, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			switch {
			case name == "config" && r.File == "":
				rows = append(rows, Row{check, Warn, "the present scheduler has " + word + ", and the default configuration was checked", "give that file with --config"})
			case name == "feature-gates":
				r.sees(value)
				if missing := notGiven(value, r.Gates); missing != "" {
					rows = append(rows, Row{check, Warn, "the present scheduler has the feature gates " + missing + ", and they were not given", "give them with --feature-gates"})
				}
			}
		}
	}
	return rows
}

// sees records the gates of a flag.
func (r *Request) sees(flag string) {
	if r.present == nil {
		r.present = map[string]bool{}
	}
	for _, one := range strings.Split(flag, ",") {
		name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(one), "kube:"), "=")
		r.present[name] = true
	}
}

// tagOf returns the tag of an image; empty if it has none.
func tagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndexByte(image, ':'); at > strings.LastIndexByte(image, '/') {
		return image[at+1:]
	}
	return ""
}

// notGiven returns the gates of a flag that were not given with the same value.
func notGiven(flag string, given map[string]bool) string {
	plain := map[string]bool{}
	for name, on := range given {
		plain[strings.TrimPrefix(name, "kube:")] = on
	}
	var missing []string
	for _, one := range strings.Split(flag, ",") {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(one), "kube:"), "=")
		if name == "" {
			continue
		}
		want, err := strconv.ParseBool(value)
		if have, ok := plain[name]; err != nil || !ok || have != want {
			missing = append(missing, name+"="+value)
		}
	}
	return strings.Join(missing, ",")
}
