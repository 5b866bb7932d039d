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

// Faults configures random faults and their frequencies. The zero value has no faults and
// no delays.
type Faults struct {
	// MaxWatchDelay and MaxBindDelay limit the delays of watch events, and of requests
	// and their answers. Versions of one object are shown in order; different objects
	// overtake each other.
	MaxWatchDelay, MaxBindDelay time.Duration
	// DuplicatePercent of watch events are shown twice.
	DuplicatePercent int
	// ReplacedPercent of deletions are not shown if the object exists again under another
	// UID: the new object appears as a version of the old one. KeyOnlyPercent of
	// deletions that only a list reveals come without a version of the object.
	ReplacedPercent, KeyOnlyPercent int
	// Requests has the percentage of requests for each fault.
	Requests map[Fault]int
	// Kinds are the requests that these faults affect; empty means all.
	Kinds []commit.RequestKind
	// StuckPercent of terminating pods stay until ReleasePods is called.
	StuckPercent int
	// MaxControllerDelay limits how late a controller acts on a change to a volume or a
	// claim.
	MaxControllerDelay time.Duration
	// Volumes has the percentage of occasions for each fault. The occasions are the start
	// of a volume's provisioning, and the arrival of a step's write to a volume or claim.
	Volumes map[VolumeFault]int
}

// Fault is a way in which a request fails.
type Fault uint8

// The ways in which a request fails.
const (
	NoFault Fault = iota
	// Conflict, Forbidden and Denied: the API server refuses the request, in the last
	// case because of a webhook. Nothing is stored.
	Conflict
	Forbidden
	Denied
	// Throttled: the API server returns "too many requests". Nothing is stored.
	Throttled
	// Unavailable: the API server is temporarily unavailable. Nothing is stored, and an
	// early retry is worthwhile.
	Unavailable
	// Internal: the API server reports a failure, but the request may have been stored.
	Internal
	// Refused: the connection is refused.
	Refused
	// Lost: the request is stored, but its answer is lost.
	Lost
	// Dropped: the connection breaks before the request arrives.
	Dropped
	// TimedOut: the client times out without an answer. The request may have been stored.
	TimedOut
	// Late: the connection breaks, and the request is stored later.
	Late
	faults
)

var faultNames = [faults]string{
	"none", "conflict", "forbidden", "denied", "throttled", "unavailable", "internal", "refused", "lost", "dropped", "timed-out", "late",
}

// String returns the fault's name.
func (f Fault) String() string { return faultNames[f] }

// maxLate limits the delay until a request is stored after its connection broke.
const maxLate = 3 * time.Second

// BindFaultNamed returns the fault with this name, as returned by String.
func BindFaultNamed(name string) (Fault, error) {
	if at := slices.Index(faultNames[1:], name); at >= 0 {
		return Fault(at + 1), nil
	}
	return NoFault, fmt.Errorf("unknown bind fault %q; want %s or %s", name, strings.Join(faultNames[1:faults-1], ", "), faultNames[faults-1])
}

// refusal returns the error of a request, or nil without a fault.
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

// bindPlan has the planned faults of the next bindings of one pod, or of the next
// provisioning for one claim.
type bindPlan struct {
	fault Fault
	times int
	delay time.Duration
	// stays means that the pod does not go while it is terminating. The evict fields are
	// about the requests that evict the pod.
	stays      bool
	evictKind  commit.RequestKind
	evictFault Fault
	evictTimes int
}

// chaos draws the random faults. Draws follow the order of effects, so a seed repeats
// them.
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

// jitter spreads waits if requests take time at all. Without delays, waits are exact.
func (c *chaos) jitter(wait time.Duration) time.Duration {
	if c.MaxBindDelay == 0 {
		return wait
	}
	return wait + c.upTo(wait/10)
}

// bindDelay returns how long a binding takes on its way.
func (c *chaos) bindDelay(key model.PodKey) time.Duration {
	if plan := c.plans[key]; plan != nil && plan.delay > 0 {
		return plan.delay
	}
	return c.upTo(c.MaxBindDelay)
}

// fault returns the fault of this request.
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

// faultOf returns the fault of a request: Refused while the API server is away, Forbidden
// just after its return, and otherwise a random one.
func (c *Cluster) faultOf(request commit.Request) Fault {
	switch {
	case c.away:
		return Refused
	case c.now.Before(c.warmAt):
		return Forbidden
	}
	return c.chaos.fault(request)
}

// done has the counter names of successful requests.
var done = func() (texts [commit.Read + 1]string) {
	for kind := range texts {
		texts[kind] = fmt.Sprintf("%s: done", commit.RequestKind(kind))
	}
	return texts
}()

// count counts the outcome of a request.
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

// Happened returns the number of successes and failures of each kind of request, and of
// each kind of disturbance.
func (c *Cluster) Happened() map[string]int { return c.happened }
