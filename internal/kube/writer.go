package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Writer writes bindings, deletions, patches, conditions and events. Every method sends
// at most one request. It is safe for concurrent use.
type Writer struct {
	client kubernetes.Interface
	host   string             // part of the reporting instance of events
	keep   func(kinds.Object) // trims a response as the watches do
}

// NewWriter builds a writer. With whole, it returns whole objects, as the watches then
// do.
func NewWriter(client kubernetes.Interface, whole bool) (*Writer, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find the name of this host, which events bear: %w", err)
	}
	return &Writer{client: client, host: host, keep: kinds.Kept(whole)}, nil
}

// once disables client-go's own retries after Retry-After, because the caller decides
// what to send first.
const once = 0

// fieldManager is the manager of the fields that are applied.
const fieldManager = "kube-scheduler"

// Bind stores the binding of a pod to its node.
func (w *Writer) Bind(ctx context.Context, binding *v1.Binding) error {
	return w.client.CoreV1().RESTClient().Post().Namespace(binding.Namespace).Resource("pods").Name(binding.Name).SubResource("binding").
		Body(binding).MaxRetries(once).Do(ctx).Error()
}

// Write patches or deletes an object of any kind. If write.Learn is set, it returns the
// stored object, as the watches keep it.
func (w *Writer) Write(ctx context.Context, write *plan.Write) (kinds.Object, error) {
	path := objectPath(write)
	if write.Subresource != "" {
		path = append(path, write.Subresource)
	}
	// The path is complete, so any client of the connection works.
	client := w.client.CoreV1().RESTClient()
	request := client.Patch(write.Type)
	switch {
	case write.Delete:
		request = client.Delete().SetHeader("Content-Type", runtime.ContentTypeJSON)
	case write.Type == types.ApplyYAMLPatchType:
		request = request.Param("fieldManager", fieldManager).Param("force", "true")
	}
	result := request.AbsPath(path...).Body(write.Data).MaxRetries(once).Do(ctx)
	if !write.Learn || write.Delete {
		return nil, result.Error()
	}
	return w.object(write, result)
}

// Get returns the object of a write, of a kind that scheduling reads, as the watches keep
// it.
func (w *Writer) Get(ctx context.Context, write *plan.Write) (kinds.Object, error) {
	return w.object(write, w.client.CoreV1().RESTClient().Get().AbsPath(objectPath(write)...).MaxRetries(once).Do(ctx))
}

// object returns the object of a response. Anything else with a success status, such as a
// proxy's page, is an error.
func (w *Writer) object(write *plan.Write, result rest.Result) (kinds.Object, error) {
	response, err := result.Get()
	if err != nil {
		return nil, err
	}
	object, ok := response.(kinds.Object)
	if !ok || kinds.Of(object) == nil || object.GetName() != write.Name || object.GetUID() == "" {
		return nil, fmt.Errorf("the API server answered with a %T that is not the object %s of %s", response, write.Name, write.Resource.GroupResource())
	}
	w.keep(object)
	return object, nil
}

// objectPath is the path of a write's object.
func objectPath(write *plan.Write) []string {
	path := []string{"apis", write.Resource.Group, write.Resource.Version}
	if write.Resource.Group == "" {
		path = []string{"api", write.Resource.Version}
	}
	if write.Namespace != "" {
		path = append(path, "namespaces", write.Namespace)
	}
	return append(path, write.Resource.Resource, write.Name)
}

// Delete deletes a pod with the pod's own grace period. If another pod has its name, the
// error is Conflict.
func (w *Writer) Delete(ctx context.Context, pod *model.Pod) error {
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	return w.client.CoreV1().RESTClient().Delete().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).Body(options).MaxRetries(once).
		Do(ctx).Error()
}

// NodeOf reads the node that the pod is bound to; empty if it is not bound. If another
// pod has its name, the error is NotFound.
func (w *Writer) NodeOf(ctx context.Context, pod *model.Pod) (string, error) {
	object := &v1.Pod{}
	err := w.client.CoreV1().RESTClient().Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).MaxRetries(once).Do(ctx).Into(object)
	switch {
	case err != nil:
	case object.UID == "":
		err = errors.New("the API server answered with something that is no pod")
	case object.UID != pod.UID:
		err = apierrors.NewNotFound(v1.Resource("pods"), pod.Name)
	}
	if err != nil {
		return "", fmt.Errorf("read the node of %s: %w", pod, err)
	}
	return object.Spec.NodeName, nil
}

// patch is a strategic merge patch of a pod. With the UID, the API server rejects the
// patch for another pod of the same name.
type patch struct {
	Metadata struct {
		UID types.UID `json:"uid"`
	} `json:"metadata"`
	Status map[string]any `json:"status"`
}

// condition is a v1.PodCondition whose omitted time leaves the stored time unchanged;
// v1.PodCondition would erase it.
type condition struct {
	Type               v1.PodConditionType `json:"type"`
	ObservedGeneration int64               `json:"observedGeneration,omitempty"`
	Status             v1.ConditionStatus  `json:"status"`
	LastTransitionTime *metav1.Time        `json:"lastTransitionTime,omitempty"`
	Reason             string              `json:"reason"`
	Message            string              `json:"message"`
}

// PatchStatus sets a condition of the pod, unless it is nil, and sets, clears or keeps
// its nominated node as the nomination requires. The transition time changes only with
// the status.
func (w *Writer) PatchStatus(ctx context.Context, pod *model.Pod, set *v1.PodCondition, nomination plan.Nomination) error {
	data, err := statusPatch(pod, set, nomination, time.Now())
	if err != nil {
		return fmt.Errorf("put the status of %s into words: %w", pod, err)
	}
	// Not Pods().Patch, which would decode the response.
	return w.client.CoreV1().RESTClient().Patch(types.StrategicMergePatchType).Namespace(pod.Namespace).Resource("pods").
		Name(pod.Name).SubResource("status").Body(data).MaxRetries(once).Do(ctx).Error()
}

func statusPatch(pod *model.Pod, set *v1.PodCondition, nomination plan.Nomination, now time.Time) ([]byte, error) {
	p := patch{Status: map[string]any{}}
	p.Metadata.UID = pod.UID
	if set != nil {
		c := condition{
			Type: set.Type, Status: set.Status, Reason: set.Reason, Message: set.Message, ObservedGeneration: set.ObservedGeneration,
		}
		if have := conditionOf(pod.Object, set.Type); have == nil || have.Status != set.Status {
			c.LastTransitionTime = &metav1.Time{Time: now}
		}
		p.Status["conditions"] = []condition{c}
	}
	switch nomination.Mode {
	case plan.Set:
		p.Status["nominatedNodeName"] = nomination.NodeName
	case plan.Clear:
		p.Status["nominatedNodeName"] = nil
	}
	return json.Marshal(p)
}

func conditionOf(pod *v1.Pod, what v1.PodConditionType) *v1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == what {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
