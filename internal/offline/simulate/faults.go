package simulate

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
)

// Faults say what goes wrong by chance, and how often. The zero value is a perfect world without delays.
type Faults struct {
	// WatchDelayMax and BindDelayMax bound how late watch events are shown, and requests carried out and answered. Versions of one object
	// are shown in order; different objects overtake each other.
	WatchDelayMax, BindDelayMax time.Duration
	// DuplicatePercent of 100 watch events are shown twice.
	DuplicatePercent int
	// ReplacedPercent of 100 deletions of objects that are there again under another UID are not shown: the new object is shown as a version of the old one.
	// KeyOnlyPercent of 100 deletions that only a list shows come without a version of the object.
	ReplacedPercent, KeyOnlyPercent int
	// Requests says in how many of 100 requests each fault happens.
	Requests map[Fault]int
	// Kinds are the requests that these faults happen to; all if there are none.
	Kinds []commit.RequestKind
	// StuckPercent of 100 pods that are being deleted stay until ReleasePods is called.
	StuckPercent int
	// ControllerDelayMax bounds how late a controller acts on a change to a volume or a claim.
	ControllerDelayMax time.Duration
	// Volumes says in how many of 100 occasions each fault happens: when a volume begins to be provisioned, or when a step's write to a volume or
	// claim arrives.
	Volumes map[VolumeFault]int
}

// Fault is a way in which a request fails.
type Fault uint8

// The ways in which a request fails.
const (
	NoFault Fault = iota
	// Conflict, Forbidden and Denied: the API server refuses, in the last case because a webhook does. Nothing is stored.
	Conflict
	Forbidden
	Denied
	// Throttled: the API server asks to come back later; nothing is stored.
	Throttled
	// Unavailable: the API server is unwell; nothing is stored, and trying again soon is worth it.
	Unavailable
	// Internal: the API server says that it failed; the request may have been stored all the same.
	Internal
	// Refused: nobody listens.
	Refused
	// Lost: the request is stored, but the answer never arrives.
	Lost
	// Dropped: the connection breaks before the request arrives.
	Dropped
	// TimedOut: no answer comes until the client gives up; the request may have been stored.
	TimedOut
	// Late: the connection breaks, and the request is stored only after that.
	Late
	faults
)

var faultNames = [faults]string{
	"none", "conflict", "forbidden", "denied", "throttled", "unavailable", "internal", "refused", "lost", "dropped", "timed-out", "late",
}

// String returns the fault's name.
func (f Fault) String() string { return faultNames[f] }

// lateMax is how long a request may take to be stored after its connection broke.
const lateMax = 3 * time.Second

// BindFaultNamed returns the fault of a name that String gives.
func BindFaultNamed(name string) (Fault, error) {
	if at := slices.Index(faultNames[1:], name); at >= 0 {
		return Fault(at + 1), nil
	}
	return NoFault, fmt.Errorf("unknown bind fault %q; want %s or %s", name, strings.Join(faultNames[1:faults-1], ", "), faultNames[faults-1])
}

// refusal is the error that a request ends with, nil without a fault.
func (f Fault) refusal(request commit.Request) error {
	what, name := v1.Resource("pods/binding"), request.Key().Name
	failed := errors.New("the binding was made to fail")
	switch request.Kind {
	case commit.Bind:
	case commit.WriteStep, commit.UndoStep, commit.Read:
		what, name, failed = request.Write.Resource.GroupResource(), request.Write.Name, fmt.Errorf("the %s was made to fail", request.Kind)
	case commit.Record, commit.Repeat:
		what, failed = v1.Resource("events"), fmt.Errorf("the %s was made to fail", request.Kind)
	default:
		what, failed = v1.Resource("pods"), fmt.Errorf("the %s was made to fail", request.Kind)
	}
	switch f {
	case Conflict:
		return apierrors.NewConflict(what, name, failed)
	case Forbidden:
		return apierrors.NewForbidden(what, name, failed)
	case Denied:
		return apierrors.NewForbidden(what, name, fmt.Errorf("admission webhook denied the request: %w", failed))
	case Throttled:
		return apierrors.NewTooManyRequests(failed.Error(), 1)
	case Unavailable:
		return apierrors.NewServiceUnavailable(failed.Error())
	case Internal:
		return apierrors.NewInternalError(failed)
	case Refused:
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case Lost, Dropped, Late:
		return fmt.Errorf("the connection was made to break: %w", io.ErrUnexpectedEOF)
	case TimedOut:
		return errors.New("no answer came in time, as was to be")
	}
	return nil
}

// bindPlan is what was ordered for the next bindings of one pod, or the next volumes that are provisioned for one claim.
type bindPlan struct {
	fault Fault
	times int
	delay time.Duration
	// stays says that the pod does not go when it is being deleted; the others are of the requests that evict it.
	stays      bool
	evictKind  commit.RequestKind
	evictFault Fault
	evictTimes int
}

// chaos draws what goes wrong. Draws happen in the order of what happens, so a seed repeats them.
type chaos struct {
	Faults
	random     *rand.Rand
	plans      map[model.PodKey]*bindPlan
	provisions map[model.ClaimKey]*bindPlan
}

func newChaos(faults Faults, seed uint64) chaos {
	return chaos{
		Faults: faults, random: rand.New(rand.NewPCG(seed, 1)),
		plans: map[model.PodKey]*bindPlan{}, provisions: map[model.ClaimKey]*bindPlan{},
	}
}

func (c *chaos) plan(key model.PodKey) *bindPlan {
	if c.plans[key] == nil {
		c.plans[key] = &bindPlan{}
	}
	return c.plans[key]
}

func (c *chaos) chance(percent int) bool { return percent > 0 && c.random.IntN(100) < percent }

func (c *chaos) upTo(limit time.Duration) time.Duration {
	if limit <= 0 {
		return 0
	}
	return time.Duration(c.random.Int64N(int64(limit) + 1))
}

// jitter spreads waits where requests take time at all; in a perfect world they are as long as they are said to be.
func (c *chaos) jitter(wait time.Duration) time.Duration {
	if c.BindDelayMax == 0 {
		return wait
	}
	return wait + c.upTo(wait/10)
}

// bindDelay is how long a binding takes on its way.
func (c *chaos) bindDelay(key model.PodKey) time.Duration {
	if plan := c.plans[key]; plan != nil && plan.delay > 0 {
		return plan.delay
	}
	return c.upTo(c.BindDelayMax)
}

// fault is how this request fails.
func (c *chaos) fault(request commit.Request) Fault {
	if plan := c.plans[request.Key()]; request.Kind == commit.Bind && plan != nil && plan.times != 0 {
		if plan.times > 0 {
			plan.times--
		}
		return plan.fault
	}
	if plan := c.plans[request.Key()]; plan != nil && plan.evictTimes != 0 && request.Kind == plan.evictKind {
		if plan.evictTimes > 0 {
			plan.evictTimes--
		}
		return plan.evictFault
	}
	if len(c.Requests) == 0 || len(c.Kinds) > 0 && !slices.Contains(c.Kinds, request.Kind) {
		return NoFault
	}
	draw := c.random.IntN(100)
	for f := NoFault + 1; f < faults; f++ {
		if draw -= c.Requests[f]; draw < 0 {
			return f
		}
	}
	return NoFault
}

// faultOf is how a request fails: by chance, or because the API server is away or has just come back.
func (c *Cluster) faultOf(request commit.Request) Fault {
	switch {
	case c.away:
		return Refused
	case c.now.Before(c.warmAt):
		return Forbidden
	}
	return c.chaos.fault(request)
}

// done is how requests are counted that were carried out.
var done = func() (texts [commit.Read + 1]string) {
	for kind := range texts {
		texts[kind] = fmt.Sprintf("%s: done", commit.RequestKind(kind))
	}
	return texts
}()

// count keeps count of what went wrong.
func (c *Cluster) count(request commit.Request, fault Fault, err error) {
	switch {
	case fault != NoFault:
		c.happened[fmt.Sprintf("%s: %s", request.Kind, fault)]++
	case err != nil:
		c.happened[fmt.Sprintf("%s: %s, in earnest", request.Kind, apierrors.ReasonForError(err))]++
	default:
		c.happened[done[request.Kind]]++
	}
}

// Happened says how often each kind of request was carried out, and failed in each way; and how often each kind of disturbance happened.
func (c *Cluster) Happened() map[string]int { return c.happened }
