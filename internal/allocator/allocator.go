// Package allocator asks the structured allocator of k8s.io/dynamic-resource-allocation which devices claims would get on a node.
//
// It takes claims, a node and the slices that it can use, classes, and what is allocated; it gives an allocation for each claim, or says that there is none,
// or why it cannot be known; and how many devices of a class a node can use. It owns the cache of compiled CEL expressions. It never remembers an allocation.
//
// It reads a clock for one thing: a search that takes longer than the configured time is given up.
package allocator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
	"k8s.io/klog/v2"
)

// Features are the optional parts of the allocator.
type Features = structured.Features

// Allocator searches. Its methods may be called by several goroutines.
type Allocator struct {
	features Features
	timeout  time.Duration // of one search; 0 is none
	cel      *cel.Cache
	silent   context.Context // the allocator logs each step of a search
}

// celKept is how many compiled CEL expressions are kept: of classes and claims together there are few different ones.
const celKept = 1_000

// New returns an allocator. A search that takes longer than timeout is given up; 0 means never.
func New(features Features, timeout time.Duration) *Allocator {
	return &Allocator{
		features: features, timeout: timeout, cel: newCache(features), silent: klog.NewContext(context.Background(), logr.Discard()),
	}
}

// newCache returns an empty cache of expressions, which can say of devices what the features know.
func newCache(features Features) *cel.Cache {
	return cel.NewCache(celKept, cel.Features{EnableConsumableCapacity: features.ConsumableCapacity, EnableListTypeAttributes: features.ListTypeAttributes})
}

// Question is what is asked of one node.
type Question struct {
	Node   *v1.Node
	Claims []*resourcev1.ResourceClaim
	// Slices are those of all pools of which the node can use any.
	Slices []*resourcev1.ResourceSlice
	// Class returns a class, nil if it does not exist.
	Class     func(name string) *resourcev1.DeviceClass
	Allocated structured.AllocatedState
	// InUse reports whether anything is allocated of a device.
	InUse func(structured.DeviceID) bool
}

// ErrInvalidPools means that there is no solution on the node, where a pool is invalid.
var ErrInvalidPools = errors.New("invalid resource pools were encountered")

// ErrTimeout means that the search was given up.
var ErrTimeout = errors.New("timed out trying to allocate devices")

// Allocate returns an allocation for each claim; none without an error if they cannot be satisfied on the node. An error that is not ErrInvalidPools is
// about more than the node: kube-scheduler fails the pod's turn.
func (a *Allocator) Allocate(q *Question) ([]resourcev1.AllocationResult, error) {
	allocated := q.Allocated
	if !a.features.ConsumableCapacity && len(allocated.AllocatedSharedDeviceIDs) > 0 {
		allocated = withoutShares(q)
	}
	search, err := structured.NewAllocator(a.silent, a.features, allocated, classes{q.Class}, q.Slices, a.cel)
	if err != nil {
		return nil, err
	}
	ctx := a.silent
	if a.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.timeout)
		defer cancel()
	}
	results, err := search.Allocate(ctx, q.Node, q.Claims)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("node %s: %w", q.Node.Name, ErrTimeout)
	case errors.Is(err, structured.ErrFailedAllocationOnNode):
		return nil, ErrInvalidPools
	case err != nil:
		return nil, err
	}
	for i := range results {
		nameShares(q.Claims[i].UID, &results[i])
	}
	return results, nil
}

// withoutShares returns what is allocated of the slices' devices where no device can be shared: of which a share was allocated when they could be, those are taken.
func withoutShares(q *Question) structured.AllocatedState {
	taken := sets.New[structured.DeviceID]()
	for _, slice := range q.Slices {
		for i := range slice.Spec.Devices {
			if id := structured.MakeDeviceID(slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name); q.InUse(id) {
				taken.Insert(id)
			}
		}
	}
	return structured.AllocatedState{AllocatedDevices: taken}
}

// shares is the name space of the identifiers of shares.
var shares = uuid.MustParse("6f1ddf0e-4a57-4f0a-9f35-5f7f7a3b8a35")

// nameShares gives shares of devices identifiers that follow from the claim and the device instead of random ones: equal inputs give equal decisions. Of one
// claim no two results are shares of one device in one request.
func nameShares(claim types.UID, result *resourcev1.AllocationResult) {
	for i := range result.Devices.Results {
		if r := &result.Devices.Results[i]; r.ShareID != nil {
			id := types.UID(uuid.NewSHA1(shares, fmt.Appendf(nil, "%s %s %s %s %s", claim, r.Request, r.Driver, r.Pool, r.Device)).String())
			r.ShareID = &id
		}
	}
}

// classes are classes as the allocator asks for them.
type classes struct {
	get func(name string) *resourcev1.DeviceClass
}

// List is never called: the allocator asks for the classes that requests name.
func (classes) List() ([]*resourcev1.DeviceClass, error) {
	return nil, errors.New("classes are asked for by name")
}

func (c classes) Get(name string) (*resourcev1.DeviceClass, error) {
	if class := c.get(name); class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclass"), name)
}
