package kube

import (
	"context"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// isOptional reports whether an API server may lack a kind. These are the device kinds:
// an administrator can turn them off, and older versions of Kubernetes lack them.
func isOptional(kind model.Kind) bool {
	return kinds.Get(kind).Resource.GroupVersion() == resourcev1.SchemeGroupVersion
}

// unserved returns the optional kinds that the API server does not serve. If discovery
// fails, it assumes that all are served.
func unserved(client *Client, optional []model.Kind, log klog.Logger) (kind []model.Kind) {
	if len(optional) == 0 {
		return nil
	}
	version := resourcev1.SchemeGroupVersion.String()
	list, err := client.Discovery().ServerResourcesForGroupVersion(version)
	if err != nil && !apierrors.IsNotFound(err) {
		log.Error(err, "API discovery failed, assuming that the API server serves devices", "groupVersion", version)
		return nil
	}
	var names []string
	for _, k := range optional {
		resource := kinds.Get(k).Resource.Resource
		if list == nil || !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }) {
			kind, names = append(kind, k), append(names, resource)
		}
	}
	if len(names) > 0 {
		log.Info("The API server does not serve all kinds of devices, they are not waited for", "groupVersion", version, "resources", names)
	}
	return kind
}

// served returns the optional kinds that the API server serves. The others are still
// watched, in case it serves them later.
func (w *Watch) served(ctx context.Context) []model.Kind {
	optional := slices.Sorted(maps.Keys(w.optional))
	missing := unserved(w.client, optional, klog.FromContext(ctx))
	return slices.DeleteFunc(optional, func(kind model.Kind) bool { return slices.Contains(missing, kind) })
}
