package allocator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"

	"github.com/berth-scheduler/berth/internal/kit/price"
)

// Features are the optional parts of the allocator.
type Features = structured.Features

// Allocator searches for devices. One goroutine at a time may use it.
type Allocator struct {
	features    Features
	limit       int64 // of the work of a search; 0 means no limit
	expressions expressions
	silent      context.Context
	// Invariant: waiting has the searches to continue, by name; waitingBytes is the sum
	// of their bytes.
	waiting      map[Name]*search
	waitingBytes int
	clock        uint64 // number of searches
}

// New returns an allocator. A search times out when its work exceeds the timeout; 0 means
// never. The timeout is counted, not measured: a unit of work is about a nanosecond.
func New(features Features, timeout time.Duration) *Allocator {
	return &Allocator{
		features: features, limit: int64(timeout), expressions: newExpressions(celFeatures(features)), silent: silentContext(), waiting: map[Name]*search{},
	}
}

// celFeatures returns the features of devices that CEL expressions may use.
func celFeatures(features Features) cel.Features {
	return cel.Features{EnableConsumableCapacity: features.ConsumableCapacity, EnableListTypeAttributes: features.ListTypeAttributes}
}

// Question is the input of a search on one node.
type Question struct {
	Node   *v1.Node
	Claims []*resourcev1.ResourceClaim
	// Slices are all slices of the pools that the node can use any part of.
	Slices []*resourcev1.ResourceSlice
	// Class returns a class, or nil if it does not exist.
	Class     func(name string) *resourcev1.DeviceClass
	Allocated structured.AllocatedState
	// InUse reports whether any part of a device is allocated.
	InUse func(structured.DeviceID) bool
	// Name identifies the search if a later round can continue it. Meter counts the work
	// of the search and has the budget of the round; nil means no budget.
	Name  Name
	Meter *price.Meter
}

// ErrInvalidPools means that a node without a solution has an invalid pool.
var ErrInvalidPools = errors.New("invalid resource pools were encountered")

// withoutShares returns the allocations as they count if devices cannot be shared. A
// device of which a share is allocated, from a time when sharing was enabled, counts as
// taken as a whole.
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

// shares is the UUID name space for share identifiers.
var shares = uuid.MustParse("6f1ddf0e-4a57-4f0a-9f35-5f7f7a3b8a35")

// nameShares replaces random share identifiers by identifiers derived from the claim and
// the device, so that equal inputs give equal decisions. In a claim, no two results are
// shares of the same device for the same request.
func nameShares(claim types.UID, result *resourcev1.AllocationResult) {
	for i := range result.Devices.Results {
		if r := &result.Devices.Results[i]; r.ShareID != nil {
			id := types.UID(uuid.NewSHA1(shares, fmt.Appendf(nil, "%s %s %s %s %s", claim, r.Request, r.Driver, r.Pool, r.Device)).String())
			r.ShareID = &id
		}
	}
}

// classes adapts class lookup to the library's interface.
type classes struct {
	get func(name string) *resourcev1.DeviceClass
}

// List is never called: the library gets classes by name.
func (classes) List() ([]*resourcev1.DeviceClass, error) {
	return nil, errors.New("classes are asked for by name")
}

func (c classes) Get(name string) (*resourcev1.DeviceClass, error) {
	if class := c.get(name); class != nil {
		return class, nil
	}
	return nil, apierrors.NewNotFound(resourcev1.Resource("deviceclass"), name)
}
