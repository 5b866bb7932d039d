package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// MaxPods is how many pods may be made at a time, by default.
const MaxPods = 200_000

// Options are the options of making pods.
type Options struct {
	Scale     []Scale    // numbers of replicas instead of those in the files
	Templates []Template // where custom resources have pod templates
	Runs      []string   // the CronJobs that run once, as NAMESPACE/NAME
	// One makes a single pod of each template, whatever the replicas, for questions about
	// similar pods. For a workload in a file that has nodes too, it makes a pod only if
	// the workload lacks one.
	One bool
	// Most limits the pods; 0 means MaxPods.
	Most int
}

// Customs returns the kinds of custom resources to read: those with known templates.
func (o Options) Customs() []schema.GroupKind {
	all := []schema.GroupKind{leaderWorkerSet, jobSet}
	for _, t := range o.Templates {
		all = append(all, t.kind)
	}
	return all
}

// Report lists the pods that were made.
type Report struct {
	Sets  []Set
	Notes []string // oddities of workloads, and pods that were not made
}

// Set counts the pods of one workload.
type Set struct {
	Kind, Namespace, Name string
	Added                 int // pods
	Have                  int // pods that it had
}

func (s *Set) String() string { return s.Kind + " " + s.Namespace + "/" + s.Name }

// Expand adds the pods of the workloads of the files to the cluster. The error joins a
// *manifest.Error per mistake, up to a limit; with an error the cluster stays as it is.
func (o Options) Expand(c *manifest.Cluster) (*Report, error) {
	e := newExpansion(o, c)
	all := e.workloads()
	e.scale(all)
	for _, w := range all {
		w.expand(e, w)
	}
	e.checkRuns(all)
	if err := manifest.Join(e.errs); err != nil {
		return nil, err
	}
	c.Create(e.made)
	return &e.report, nil
}

// expansion is a cluster while pods are made for it.
type expansion struct {
	Options
	cluster *manifest.Cluster
	report  Report
	errs    []*manifest.Error
	made    []manifest.Made
	left    int // pods that may still be made
	pods    podIndex
	claims  map[string]bool // NAMESPACE/NAME of claims
	sets    map[ownerKey][]*appsv1.ReplicaSet
	run     map[string]bool // the CronJobs of Runs that were found
	// deployments are the Deployments of the files, which make the pods of their
	// ReplicaSets.
	deployments map[ownerKey]bool
	// jobSets are the JobSets of the files, which make the pods of their Jobs.
	jobSets map[ownerKey]bool
}

func newExpansion(o Options, c *manifest.Cluster) *expansion {
	e := &expansion{Options: o, cluster: c, left: cmp.Or(o.Most, MaxPods), pods: indexPods(c.Pods),
		claims: map[string]bool{}, sets: map[ownerKey][]*appsv1.ReplicaSet{}, run: map[string]bool{},
		deployments: map[ownerKey]bool{}, jobSets: map[ownerKey]bool{}}
	for _, o := range c.Customs {
		if o.GroupVersionKind().GroupKind() == jobSet {
			e.jobSets[ownerKey{o.GetNamespace(), jobSet.Group, jobSet.Kind, o.GetName()}] = true
		}
	}
	for _, d := range c.Deployments {
		e.deployments[ownerKey{d.Namespace, "apps", "Deployment", d.Name}] = true
	}
	for _, claim := range c.PersistentVolumeClaims {
		e.claims[claim.Namespace+"/"+claim.Name] = true
	}
	for _, set := range c.ReplicaSets {
		if owner := metav1.GetControllerOfNoCopy(set); owner != nil {
			key := keyOf(set.Namespace, owner)
			e.sets[key] = append(e.sets[key], set)
		}
	}
	return e
}

// item is one workload of the files.
type item struct {
	object     metav1.Object
	apiVersion string
	kind       string
	name       string // the kind, with the group unless it is well known
	place      manifest.Place
	replicas   *int32 // of --scale
	scalable   bool
	expand     func(*expansion, *item)
}

func (w *item) String() string {
	return w.name + " " + w.object.GetNamespace() + "/" + w.object.GetName()
}

func (w *item) key() ownerKey {
	owner := w.owner()
	return keyOf(w.object.GetNamespace(), &owner)
}

// owner returns the reference of the workload's pods.
func (w *item) owner() metav1.OwnerReference { return ownerOf(w.object, w.apiVersion, w.kind) }

func ownerOf(o metav1.Object, apiVersion, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: o.GetName(), UID: o.GetUID(),
		Controller: new(true), BlockOwnerDeletion: new(true)}
}

// wanted returns the replicas of the workload: the number of --scale, or of its field, or
// 1.
func (w *item) wanted(field *int32) int {
	if w.replicas != nil {
		field = w.replicas
	}
	if field == nil {
		return 1
	}
	return int(*field)
}

// workloads lists the workloads of the files: kind by kind, in the order of the files.
func (e *expansion) workloads() []*item {
	c := e.cluster
	var all []*item
	all = list(e, all, c.Deployments, "apps/v1", "Deployment", true, (*expansion).deployment)
	all = list(e, all, c.ReplicaSets, "apps/v1", "ReplicaSet", true, (*expansion).replicaSet)
	all = list(e, all, c.StatefulSets, "apps/v1", "StatefulSet", true, (*expansion).statefulSet)
	all = list(e, all, c.DaemonSets, "apps/v1", "DaemonSet", false, (*expansion).daemonSet)
	all = list(e, all, c.ReplicationControllers, "v1", "ReplicationController", true, (*expansion).replicationController)
	all = list(e, all, c.Jobs, "batch/v1", "Job", true, (*expansion).job)
	all = list(e, all, c.CronJobs, "batch/v1", "CronJob", false, (*expansion).cronJob)
	for _, custom := range c.Customs {
		expand := (*expansion).custom
		scalable := true
		switch custom.GroupVersionKind().GroupKind() {
		case leaderWorkerSet:
			expand = (*expansion).leaderWorkerSet
		case jobSet:
			expand, scalable = (*expansion).jobSet, false
		}
		one := []*unstructured.Unstructured{custom}
		all = list(e, all, one, custom.GetAPIVersion(), custom.GetKind(), scalable, expand)
		if kind := custom.GroupVersionKind().GroupKind(); kind != leaderWorkerSet && kind != jobSet {
			all[len(all)-1].name = kind.String()
		}
	}
	return all
}

// list adds the objects of one kind that the files define.
func list[T any, O interface {
	*T
	metav1.Object
	runtime.Object
}](e *expansion, all []*item, objects []O, apiVersion, kind string, scalable bool, expand func(*expansion, *item, O)) []*item {
	for _, o := range objects {
		if place, ok := e.cluster.Place(o); ok {
			all = append(all, &item{object: o, apiVersion: apiVersion, kind: kind, name: kind, place: place,
				scalable: scalable,
				expand:   func(e *expansion, w *item) { expand(e, w, o) }})
		}
	}
	return all
}

// problem returns a problem of the workload with its place.
func (w *item) problem(field, text string) *manifest.Error {
	return &manifest.Error{File: w.place.File, Line: w.place.Line, Object: w.String(), Field: field, Problem: text}
}

// fail adds a mistake in a workload.
func (e *expansion) fail(w *item, field, format string, args ...any) {
	e.errs = append(e.errs, w.problem(field, fmt.Sprintf(format, args...)))
}

// note adds a note about a workload.
func (e *expansion) note(w *item, field, format string, args ...any) {
	e.report.Notes = append(e.report.Notes, w.problem(field, fmt.Sprintf(format, args...)).Error())
}

// missing returns how many pods to make for a workload that wants some and has some. Too
// many are a mistake.
func (e *expansion) missing(w *item, field string, want, have int) int {
	n := max(0, want-have)
	if e.One && (n > 0 || len(e.cluster.Given[w.place.Given].Nodes) == 0) {
		n = 1
	}
	if n > e.left {
		e.fail(w, field, "%d pods are too many: a run makes at most %d; give fewer, as in --scale %s/%s=1000",
			n, cmp.Or(e.Most, MaxPods), w.object.GetNamespace(), w.object.GetName())
		return 0
	}
	e.left -= n
	if want < have {
		e.note(w, field, "%d pods exist, more than %d; none is removed", have, want)
	}
	return n
}

// record adds a set to the report.
func (e *expansion) record(w *item, added, have int) {
	set := Set{Kind: w.name, Namespace: w.object.GetNamespace(), Name: w.object.GetName(), Added: added, Have: have}
	e.report.Sets = append(e.report.Sets, set)
}

// create adds an object for a workload.
func (e *expansion) create(w *item, o runtime.Object) {
	e.made = append(e.made, manifest.Made{Object: o, Given: w.place.Given})
}

// checkRuns reports CronJobs that are to run and that the files do not have.
func (e *expansion) checkRuns(all []*item) {
	var known []string
	for _, w := range all {
		if w.kind == "CronJob" {
			known = append(known, w.object.GetNamespace()+"/"+w.object.GetName())
		}
	}
	for _, name := range e.Runs {
		if !e.run[name] {
			problem := "the files have no such CronJob; they have " + orNone(known)
			e.errs = append(e.errs, &manifest.Error{File: "--run-cronjob " + name, Problem: problem})
		}
	}
}

// orNone lists names, a few of them.
func orNone(names []string) string {
	const most = 5
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		names = append(slices.Clone(names[:most]), "...")
	}
	return strings.Join(names, ", ")
}

// Summary counts the pods that were made, in one line; "" if the files have no workload.
func (r *Report) Summary() string {
	const maxNamed = 5
	if len(r.Sets) == 0 {
		return ""
	}
	pods := 0
	var named []string
	for i := range r.Sets {
		s := &r.Sets[i]
		pods += s.Added
		text := fmt.Sprintf("%s %d", s, s.Added)
		if s.Have > 0 {
			text += fmt.Sprintf(" (%d exist)", s.Have)
		}
		named = append(named, text)
	}
	if len(r.Sets) > maxNamed {
		named = r.byKind()
	}
	return fmt.Sprintf("pods made for workloads of the files: %d. %s", pods, strings.Join(named, ", "))
}

// byKind counts the pods of each kind of workload, in the order of the kinds.
func (r *Report) byKind() []string {
	var kinds []string
	type sum struct{ sets, added, have int }
	sums := map[string]*sum{}
	for i := range r.Sets {
		s := &r.Sets[i]
		if sums[s.Kind] == nil {
			sums[s.Kind] = &sum{}
			kinds = append(kinds, s.Kind)
		}
		of := sums[s.Kind]
		of.sets, of.added, of.have = of.sets+1, of.added+s.Added, of.have+s.Have
	}
	for i, kind := range kinds {
		of := sums[kind]
		kinds[i] = fmt.Sprintf("%d of %d %s", of.added, of.sets, plural(kind, of.sets))
		if of.have > 0 {
			kinds[i] += fmt.Sprintf(" (%d exist)", of.have)
		}
	}
	return kinds
}

func plural(kind string, n int) string {
	if n == 1 {
		return kind
	}
	return kind + "s"
}

// podName returns NAMESPACE/NAME.
func podName(p *v1.Pod) string { return p.Namespace + "/" + p.Name }
