// Package preflight checks whether Berth can replace a cluster's scheduler.
//
// It takes the access to an API server, the configuration for Berth, and the cluster's
// objects. It returns rows with the result of each check and the action to take. It owns
// nothing. It only writes access reviews, which the API server answers and does not
// store.
package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// Minor and Newest are the oldest and the newest minor version of a kube-scheduler that
// Berth can replace.
const (
	Minor  = int(config.Release37)
	Newest = int(config.Release38)
)

// Status is the result of a check.
type Status string

// The statuses. Only Fail prevents the replacement.
const (
	Pass Status = "pass"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Row is one check with its result.
type Row struct {
	Check   string `json:"check"`
	Status  Status `json:"status"`
	Message string `json:"message"`
	// Do is the action to take; empty for a check that passed.
	Do string `json:"do,omitempty"`
}

// Report is the result of all checks.
type Report struct {
	Rows []Row `json:"rows"`
	Pass int   `json:"pass"`
	Warn int   `json:"warn"`
	Fail int   `json:"fail"`
}

func (r *Report) add(rows ...Row) {
	for _, row := range rows {
		switch row.Status {
		case Pass:
			r.Pass++
		case Warn:
			r.Warn++
		case Fail:
			r.Fail++
		}
		r.Rows = append(r.Rows, row)
	}
}

// Request is the input of Run.
type Request struct {
	Access *rest.Config
	// File is the path of the configuration file as given; empty without one. Gates are
	// the given feature gates.
	File  string
	Gates map[string]bool
	// Scheduler is the configuration; nil if it is invalid. Mistake is then the error.
	Scheduler *config.Config
	Mistake   error
	// Of is the subject whose rights are checked; without a name, the user.
	Of Subject
	// Cluster has the pods; nil if they cannot be listed. Unread is then the error.
	Cluster *manifest.Cluster
	Unread  error
	// To is the release to upgrade to; 0 for none.
	To config.Release

	// present are the names of the gates that the present scheduler's pods have.
	present map[string]bool
}

// Subject is a user with groups.
type Subject struct {
	Name   string
	Groups []string
}

// Run performs all checks.
func Run(ctx context.Context, r Request) (*Report, error) {
	access := rest.CopyConfig(r.Access)
	access.QPS = -1 // No limit: only a few requests run at a time.
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, fmt.Errorf("build a client for %s: %w", access.Host, err)
	}
	report := &Report{Rows: []Row{}}
	row, err := version(client)
	if err != nil {
		return nil, err
	}
	report.add(row)
	report.add(present(ctx, client, &r)...)
	report.add(configuration(&r)...)
	if r.Scheduler == nil {
		return report, nil // Without a configuration, its reads and writes are unknown.
	}
	report.add(served(client, r.Scheduler)...)
	allowed, err := rights(ctx, client, &r)
	if err != nil {
		return nil, err
	}
	report.add(allowed...)
	report.add(workloads(&r)...)
	report.add(upgrade(&r)...)
	return report, nil
}

// configuration lists the parts of the configuration that have no counterpart in Berth.
func configuration(r *Request) []Row {
	const check = "configuration"
	if r.Mistake != nil {
		return []Row{{check, Fail, r.Mistake.Error(), "correct the file or the gates; an out-of-tree plugin must be compiled in (docs/plugins.md)"}}
	}
	var rows []Row
	for _, name := range r.Scheduler.Barring {
		rows = append(rows, Row{check, Warn, fmt.Sprintf("plugin %s is enabled, and Berth does not have it yet: pods that need it stay pending", name), "see the rows of workloads for whether there are such pods"})
	}
	if names := r.Scheduler.WithoutEffect(); len(names) > 0 {
		rows = append(rows, Row{check, Warn, "plugins are enabled that Berth does not have, and they do not affect placement: " + strings.Join(names, ", "), "nothing, or disable them"})
	}
	for _, note := range r.Scheduler.Notes {
		rows = append(rows, Row{check, Warn, "accepted, but " + note, "nothing, or leave it out"})
	}
	for i := range r.Scheduler.Source.Extenders {
		rows = append(rows, Row{"extender", Pass, r.Scheduler.Shown().Extenders[i].URLPrefix + " is called, about all nodes and candidates", ""})
	}
	if !slices.ContainsFunc(rows, func(row Row) bool { return row.Status != Pass }) {
		rows = append(rows, Row{check, Pass, "everything in " + nameOf(r.File) + " has its counterpart", ""})
	}
	return rows
}

func nameOf(file string) string {
	if file == "" {
		return "the default configuration"
	}
	return file
}

// workloads lists the pods that would stay pending with Berth, and the pods of schedulers
// without a profile.
func workloads(r *Request) []Row {
	const check = "workloads"
	if r.Unread != nil {
		return []Row{{check, Fail, r.Unread.Error(), "run with permission to list pods and nodes in the whole cluster"}}
	}
	foreign, kept := counts{}, counts{}
	served := 0
	composite := map[string]string{} // The parent of each PodGroup, by namespace/name.
	for _, group := range r.Cluster.PodGroups {
		if parent := group.Spec.ParentCompositePodGroupName; r.Scheduler.Groups && !r.Scheduler.Trees && parent != nil {
			composite[group.Namespace+"/"+group.Name] = *parent
		}
	}
	names := r.Scheduler.SchedulerNames()
	classes := classesOf(r.Cluster)
	for _, pod := range r.Cluster.Pods {
		if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed || isBoundByItsMaker(pod) {
			continue
		}
		if !slices.Contains(names, pod.Spec.SchedulerName) {
			foreign.add(fmt.Sprintf("%q", pod.Spec.SchedulerName), pod)
			continue
		}
		served++
		if why := r.Scheduler.KeepsPending(pod, classes); why != "" {
			kept.add(why, pod)
		} else if group := pod.Spec.SchedulingGroup; group != nil && group.PodGroupName != nil {
			if parent := composite[pod.Namespace+"/"+*group.PodGroupName]; parent != "" {
				kept.add("the pod group belongs to composite pod group "+parent, pod)
			}
		}
	}
	var rows []Row
	for _, why := range kept.order {
		rows = append(rows, Row{check, Fail, fmt.Sprintf("%d pods would stay pending if they were recreated: %s: %s", len(kept.of[why]), why, some(kept.of[why])),
			"do not change over while these need it (docs/gates.md)"})
	}
	for _, name := range foreign.order {
		rows = append(rows, Row{check, Warn, fmt.Sprintf("%d pods have the scheduler name %s, which no profile has: %s", len(foreign.of[name]), name, some(foreign.of[name])),
			"nothing, if another scheduler has that name; otherwise add a profile"})
	}
	if len(kept.order) == 0 {
		rows = append(rows, Row{check, Pass, fmt.Sprintf("%d pods are of the profiles %s, and none of them needs what Berth lacks", served, strings.Join(names, ", ")), ""})
	}
	return rows
}

// classes are the DeviceClasses by the extended resources that their devices provide.
type classes map[model.ResourceName]*model.DeviceClass

// ClassFor returns a class whose devices provide a resource; nil if no class does. If
// several do, any is returned, because callers only test for existence.
func (c classes) ClassFor(name model.ResourceName) *model.DeviceClass { return c[name] }

// HasClasses reports whether any class exists.
func (c classes) HasClasses() bool { return len(c) > 0 }

func classesOf(cluster *manifest.Cluster) classes {
	all := classes{}
	for _, object := range cluster.DeviceClasses {
		class := model.NewDeviceClass(object)
		all[model.ResourceNameOf(model.ImpliedResource(object.Name))] = class
		if named := object.Spec.ExtendedResourceName; named != nil {
			all[model.ResourceNameOf(*named)] = class
		}
	}
	return all
}

// isBoundByItsMaker reports whether a pod is a static pod, which no scheduler places.
func isBoundByItsMaker(pod *v1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	_, mirror := pod.Annotations[v1.MirrorPodAnnotationKey]
	return mirror || owner != nil && owner.Kind == "Node"
}

// counts are pod names by a key, in the order in which the keys were added.
type counts struct {
	order []string
	of    map[string][]string
}

func (c *counts) add(what string, pod *v1.Pod) {
	if c.of == nil {
		c.of = map[string][]string{}
	}
	if c.of[what] == nil {
		c.order = append(c.order, what)
	}
	c.of[what] = append(c.of[what], pod.Namespace+"/"+pod.Name)
}

// some lists the first names, and the number of the remaining ones.
func some(names []string) string {
	const most = 3
	slices.Sort(names)
	text := strings.Join(names[:min(most, len(names))], ", ")
	if left := len(names) - most; left > 0 {
		text += fmt.Sprintf(" and %d more", left)
	}
	return text
}
