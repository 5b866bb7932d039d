// Package live reads a cluster from its API server, for commands that answer questions
// about it.
//
// It takes the access to an API server and the kinds of object that the scheduler's
// configuration reads. It returns a [manifest.Cluster], trimmed to the fields that the
// scheduler and its simulation read. For each kind that the user may not list, it returns
// a note with the assumption made instead. It owns its connections while it reads. It
// never writes, and reads no secrets, logs or events. The ClusterRole view and the right
// to list nodes suffice for most questions.
package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// Request is the input of Read.
type Request struct {
	// Access is the API server's address and credentials. Read sets media types and rate
	// limits.
	Access *rest.Config
	// Kinds are the kinds that the configured plugins read. Pods, nodes, priority classes
	// and PodDisruptionBudgets are always read. ResourceClaimTemplates are read with
	// ResourceClaims.
	Kinds []model.Kind
	// Progress, if set, is called with the number of pods read and the total. Calls do
	// not overlap.
	Progress func(done, total int64)
	// Namespace, if set, is the only namespace whose objects List lists.
	Namespace string
}

// Result is a cluster as it was read. The kinds are listed concurrently, so they may
// differ by a moment in time.
type Result struct {
	Cluster *manifest.Cluster
	// Notes name the kinds that could not be read, and the assumptions made instead.
	Notes []string
	aside []func(*v1.Pod)
}

// SetAside removes from a pending pod that is added to the cluster the claims that cannot
// be judged, as listed in Notes.
func (r *Result) SetAside(pod *v1.Pod) {
	if pod.Spec.NodeName != "" {
		return
	}
	for _, remove := range r.aside {
		remove(pod)
	}
}

// pageSize is the number of objects in a response. A page of large pods is a few
// megabytes.
const pageSize = 500

// inFlight is the number of kinds that are listed at the same time.
const inFlight = 4

// Read reads a cluster. A forbidden kind causes a note; forbidden pods or nodes are an
// error. A kind that the API server does not serve has no objects.
func Read(ctx context.Context, r Request) (*Result, error) {
	listed := wanted(r.Kinds)
	found, errs := r.list(ctx, listed, trimmed)
	if err := failure(listed, errs); err != nil {
		return nil, err
	}
	result := &Result{Cluster: &manifest.Cluster{}}
	forbidden := map[string]bool{}
	for i := range listed {
		if apierrors.IsForbidden(errs[i]) {
			forbidden[listed[i].resource.Resource] = true
		}
		for _, object := range found[i] {
			result.Cluster.Add(object)
		}
	}
	result.assume(forbidden)
	result.Cluster.Complete()
	return result, nil
}

// keeper removes from an object what is not read. trim is the trimming of the scheduler.
type keeper func(object kinds.Object, trim func(kinds.Object))

// list lists the objects of each kind, several kinds at a time. It stops when a kind
// fails without which no answer is possible.
func (r *Request) list(
	ctx context.Context, listed []listedKind, keep keeper,
) (found [][]runtime.Object, errs []error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	trim := kinds.Kept(false)
	errs, found = make([]error, len(listed)), make([][]runtime.Object, len(listed))
	var wg sync.WaitGroup
	slots := make(chan struct{}, inFlight)
	for i := range listed {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			client, err := clientFor(r.Access, listed[i].resource.GroupVersion())
			if err != nil {
				errs[i] = err
				return
			}
			l := lister{client: client, kind: &listed[i], keep: func(o kinds.Object) { keep(o, trim) }}
			if listed[i].namespaced {
				l.namespace = r.Namespace
			}
			if listed[i].resource.Resource == "pods" {
				l.progress = r.Progress
			}
			if found[i], errs[i] = l.list(ctx); errs[i] != nil && !isMissing(errs[i]) {
				cancel() // No answer is possible without this kind.
			}
		})
	}
	wg.Wait()
	return found, errs
}

// failure returns the first error that prevents an answer, or all missing rights that do.
// Requests that were cancelled because of another failure come last.
func failure(listed []listedKind, errs []error) error {
	var first error
	var missing MissingRights
	for i, err := range errs {
		name := listed[i].resource.Resource
		switch {
		case err == nil, isMissing(err) && !listed[i].essential:
			continue
		case apierrors.IsForbidden(err):
			missing.Resources, missing.err = append(missing.Resources, name), cmp.Or(missing.err, err)
			continue
		}
		if first == nil || errors.Is(first, context.Canceled) {
			first = fmt.Errorf("list %s: %w", name, err)
		}
	}
	if len(missing.Resources) > 0 {
		return &missing
	}
	return first
}

// MissingRights are rights without which no answer is possible: to list pods in all
// namespaces, or nodes.
type MissingRights struct {
	Resources []string
	err       error // of the API server
}

// Error names the rights, and two ways to go on. The API server's text would only repeat
// the user and the resource.
func (m *MissingRights) Error() string {
	var which []string
	for _, resource := range m.Resources {
		if resource == "pods" {
			resource += " in all namespaces"
		}
		which = append(which, resource)
	}
	return fmt.Sprintf("you may not list %s, which the command needs: request the verb list on %s in a ClusterRole, "+
		"or get a file from someone who may (kubectl berth snapshot) and give it with -f", strings.Join(which, ", nor "), strings.Join(m.Resources, " and "))
}

// Unwrap returns the API server's error.
func (m *MissingRights) Unwrap() error { return m.err }

// isMissing reports whether the user may not list a kind or the API server does not serve
// it.
func isMissing(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// listedKind is a kind to list.
type listedKind struct {
	resource   schema.GroupVersionResource
	list       schema.GroupVersionKind
	namespaced bool
	essential  bool
}

// wanted returns the kinds to list. Pods come first because they are the most.
func wanted(read []model.Kind) []listedKind {
	read = append([]model.Kind{model.PodKind, model.NodeKind, model.PodDisruptionBudgetKind}, read...)
	all := listedKinds(read)
	all = addKind(all, schedulingv1.SchemeGroupVersion.WithResource("priorityclasses"), &schedulingv1.PriorityClass{}, false)
	if slices.Contains(read, model.ResourceClaimKind) {
		all = addKind(all, resourcev1.SchemeGroupVersion.WithResource("resourceclaimtemplates"), &resourcev1.ResourceClaimTemplate{}, true)
	}
	return all
}

// listedKinds returns exactly these kinds to list.
func listedKinds(read []model.Kind) (all []listedKind) {
	for _, kind := range read {
		row := kinds.Get(kind)
		all = addKind(all, row.Resource, row.New(), row.Namespaced)
	}
	return all
}

// addKind adds a kind, unless all has it.
func addKind(all []listedKind, resource schema.GroupVersionResource, object runtime.Object, namespaced bool) []listedKind {
	if slices.ContainsFunc(all, func(k listedKind) bool { return k.resource == resource }) {
		return all
	}
	of, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		return all // Not reached: all types of the table are registered (TestWanted).
	}
	list := of[0].GroupVersion().WithKind(of[0].Kind + "List")
	return append(all, listedKind{resource, list, namespaced, resource.Resource == "pods" || resource.Resource == "nodes"})
}

// clientFor returns a client for a group and version that requests protobuf.
func clientFor(access *rest.Config, of schema.GroupVersion) (*rest.RESTClient, error) {
	config := rest.CopyConfig(access)
	config.GroupVersion, config.APIPath = &of, "/apis"
	if of.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	config.QPS = -1 // No limit: only a few requests run at a time.
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("build a client for %s: %w", config.Host, err)
	}
	return client, nil
}

// lister lists the objects of one kind.
type lister struct {
	client    rest.Interface
	kind      *listedKind
	namespace string // empty for all
	keep      func(kinds.Object)
	progress  func(done, total int64)
}

// list lists page by page. If the list expires between two pages, it starts again, once
// and without pages.
func (l *lister) list(ctx context.Context) ([]runtime.Object, error) {
	var found []runtime.Object
	limit, next := int64(pageSize), ""
	for {
		page, err := scheme.Scheme.New(l.kind.list)
		if err != nil {
			return nil, err
		}
		options := metav1.ListOptions{Limit: limit, Continue: next}
		err = l.client.Get().NamespaceIfScoped(l.namespace, l.namespace != "").Resource(l.kind.resource.Resource).VersionedParams(&options, scheme.ParameterCodec).Do(ctx).Into(page)
		if apierrors.IsResourceExpired(err) && limit > 0 {
			found, limit, next = nil, 0, ""
			continue
		}
		if err != nil {
			return nil, err
		}
		items, err := meta.ExtractListWithAlloc(page)
		if err != nil {
			return nil, err
		}
		for _, item := range items {
			l.keep(item.(kinds.Object))
		}
		found = append(found, items...)
		at := page.(metav1.ListInterface)
		if l.progress != nil {
			left := int64(0)
			if n := at.GetRemainingItemCount(); n != nil {
				left = *n
			}
			l.progress(int64(len(found)), int64(len(found))+left)
		}
		if next = at.GetContinue(); next == "" {
			return found, nil
		}
	}
}

// emptyDir is shared by all pods with such volumes.
var emptyDir = &v1.EmptyDirVolumeSource{}

// isLocal reports whether a volume's data is lost with its pod.
func isLocal(v v1.Volume) bool { return v.EmptyDir != nil }

// trimmed removes the fields that are not read. Pods keep more than in a scheduler: the
// mirror annotation, the grace period, readiness, and whether they have an emptyDir
// volume.
func trimmed(object kinds.Object, trim func(kinds.Object)) {
	switch o := object.(type) {
	case *v1.Pod:
		mirror, isMirror := o.Annotations[v1.MirrorPodAnnotationKey]
		grace, ready, local := o.Spec.TerminationGracePeriodSeconds, readiness(o), slices.ContainsFunc(o.Spec.Volumes, isLocal)
		trim(o)
		o.Spec.TerminationGracePeriodSeconds = grace
		if local { // One volume stands for all.
			o.Spec.Volumes = append(slices.Clip(o.Spec.Volumes), v1.Volume{Name: "local", VolumeSource: v1.VolumeSource{EmptyDir: emptyDir}})
		}
		o.Status.Conditions = append(o.Status.Conditions, ready...)
		if isMirror {
			o.Annotations = map[string]string{v1.MirrorPodAnnotationKey: mirror}
		}
	case *v1.Node:
		trim(o)
	case *appsv1.ReplicaSet: // A cluster can have as many ReplicaSets as pods.
		o.ManagedFields, o.Annotations, o.Spec.Template = nil, nil, v1.PodTemplateSpec{}
	default:
		object.SetManagedFields(nil)
	}
}

// readiness returns the pod's Ready condition.
func readiness(pod *v1.Pod) []v1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodReady {
			return []v1.PodCondition{{Type: c.Type, Status: v1.ConditionStatus(model.Interned(string(c.Status)))}}
		}
	}
	return nil
}
