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
	limit       int64 // of the work of one search; 0 is none
	expressions expressions
	silent      context.Context
	// Invariant: waiting has the searches to be continued, by name; waitingBytes is the
	// sum of their bytes.
	waiting      map[Name]*search
	waitingBytes int
	clock        uint64 // counts searches
}

// New returns an allocator. A search is given up when its work exceeds the timeout; 0
// means never. The timeout is counted, not measured: a unit of work is about a
// nanosecond.
func New(features Features, timeout time.Duration) *Allocator {
	return &Allocator{
		features: features, limit: int64(timeout), expressions: newExpressions(celFeatures(features)), silent: silentContext(), waiting: map[Name]*search{},
	}
}

// celFeatures returns the features of devices that CEL expressions may use.
func celFeatures(features Features) cel.Features {
	return cel.Features{EnableConsumableCapacity: features.ConsumableCapacity, EnableListTypeAttributes: features.ListTypeAttributes}
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
	// Name identifies the search if a later turn can continue it. Meter counts the work
	// of the search and has the budget of its turn; nil means no budget.
	Name  Name
	Meter *price.Meter
}

// ErrInvalidPools means that there is no solution on the node, where a pool is invalid.
var ErrInvalidPools = errors.New("invalid resource pools were encountered")

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
