package live

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// Listed is what List found.
type Listed struct {
	Cluster *manifest.Cluster
	// Forbidden are the resources that the user may not list, in the request's order.
	Forbidden []string
}

// List lists exactly the kinds of the request, and assumes nothing about forbidden ones.
// A kind that the API server does not serve has no objects.
func List(ctx context.Context, r Request) (*Listed, error) {
	return r.find(ctx, listedKinds(r.Kinds), trimmed)
}

// find lists kinds. An error names the first kind that could not be listed for another
// reason than a missing right.
func (r *Request) find(ctx context.Context, listed []listedKind, keep keeper) (*Listed, error) {
	for i := range listed {
		listed[i].essential = false
	}
	found, errs := r.list(ctx, listed, keep)
	result := &Listed{Cluster: &manifest.Cluster{}}
	var failed error
	for i, err := range errs {
		name := listed[i].resource.Resource
		switch {
		case apierrors.IsForbidden(err):
			result.Forbidden = append(result.Forbidden, name)
		case err != nil && !isMissing(err) && (failed == nil || errors.Is(failed, context.Canceled)):
			failed = fmt.Errorf("list %s: %w", name, err)
		}
		for _, object := range found[i] {
			result.Cluster.Add(object)
		}
	}
	if failed != nil {
		return nil, failed
	}
	return result, nil
}
