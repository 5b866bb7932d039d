package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// external stands in for external plugins, for one in four pods. They are called at
// Reserve, PreBind, Bind and PostBind, and wait at Permit. While restless they are slow,
// fail, skip, hang, or report a failure although they have bound the pod.
type external struct {
	r        *rand.Rand
	c        *simulate.Cluster
	restless bool
	attempts map[types.UID]*attempt // the last attempt of each pod
	wrong    error                  // the first error
}

// attempt records the calls for one placement.
type attempt struct {
	begun map[string]int
	order []string
}

func newExternal(n uint64) *external {
	return &external{r: rand.New(rand.NewPCG(n, 9)), attempts: map[types.UID]*attempt{}}
}

// forget clears the record, as for a new process.
func (o *external) forget() { clear(o.attempts) }

// Name returns the name of the plugin that waits at Permit.
func (o *external) Name() string { return "Outside" }

func hashed(uid types.UID, n uint32) bool {
	h := fnv.New32a()
	h.Write([]byte(uid))
	return h.Sum32()%n == 0
}

// Permit waits for every eighth pod.
func (o *external) Permit(_ state.View, p *plan.Placement) ([]plan.Step, error) {
	if !hashed(p.Pod.UID, 8) {
		return nil, nil
	}
	return []plan.Step{{Wait: &plan.Wait{Timeout: 10 * time.Minute}}}, nil // a timeout would park it
}

// steps adds the calls to a placement.
func (o *external) steps(p *plan.Placement) {
	if !hashed(p.Pod.UID, 4) {
		return
	}
	a := &attempt{begun: map[string]int{}}
	o.attempts[p.Pod.UID] = a
	call := func(stage plan.Stage, name string) plan.Step {
		return plan.Step{Stage: stage, Plugin: name, Call: &stand{o, a, stage, name}}
	}
	reserve, preBind := call(plan.Reserve, "first"), call(plan.PreBind, "second")
	reserve.UndoCall, preBind.UndoCall = &stand{o, a, plan.Reserve, "undo first"}, &stand{o, a, plan.PreBind, "undo second"}
	steps := []plan.Step{reserve}
	for i := range p.Steps {
		if p.Steps[i].Stage == plan.Permit {
			steps = append(steps, p.Steps[i])
			o.endPermit(p.Pod.UID)
		}
	}
	p.Steps = append(steps, preBind, call(plan.Bind, "third"), call(plan.Bind, "fourth"), call(plan.PostBind, "fifth"))
}

// endPermit plans the end of a pod's wait.
func (o *external) endPermit(uid types.UID) {
	how := o.r.IntN(10)
	if !o.restless {
		how = 0
	}
	o.c.Plan(o.c.Now().Add(time.Duration(o.r.IntN(4000))*time.Millisecond), func() {
		o.c.EndPermit(uid, func(out *commit.Outbox, at *commit.AtPermit) {
			switch {
			case how < 6:
				out.AllowAt(o.c.Now(), at, o.Name())
			case how < 8:
				out.RejectAt(o.c.Now(), at, "", "too few")
			default:
				out.PreemptAt(o.c.Now(), at, "room is needed")
			}
		})
	})
}

// stand is one call.
type stand struct {
	o     *external
	a     *attempt
	stage plan.Stage
	name  string
}

// Run is not called.
func (s *stand) IsCall() {}

func (s *stand) Run(context.Context) commit.CallResult { panic("a call that is played is run") }

// Begin draws the course of the call.
func (s *stand) Begin() simulate.Script {
	if s.a.begun[s.name]++; s.a.begun[s.name] > 1 {
		s.o.fails("call %s is run twice", s.name)
	}
	s.a.order = append(s.a.order, s.name)
	script := simulate.Script{Result: commit.CallResult{Works: s.o.r.IntN(2) == 0}}
	if s.stage == plan.Bind {
		script.Binds = s.name == "fourth" && s.o.r.IntN(2) == 0
		script.Result.Skipped = !script.Binds
	}
	if !s.o.restless {
		return script
	}
	script.Took, script.Soon = time.Duration(s.o.r.IntN(1500))*time.Millisecond, time.Duration(s.o.r.IntN(800))*time.Millisecond
	switch draw := s.o.r.IntN(20); {
	case draw < 2:
		script.Result = commit.CallResult{Err: fmt.Errorf("running %s plugin %q: %w", s.stage, s.name, errors.New("it was made to fail")), Rejected: draw == 0}
		script.Binds = script.Binds && draw == 1
	case draw == 2 && s.name[:2] != "un":
		script.Took = -1
	}
	return script
}

func (o *external) fails(format string, args ...any) {
	if o.wrong == nil {
		o.wrong = fmt.Errorf(format, args...)
	}
}

// audit checks each finished binding. If it failed, its calls were undone in reverse
// order; otherwise none was. A process that stops undoes nothing.
func (o *external) audit(r simulate.Round, stopping bool) error {
	for _, shown := range r.Shown {
		if shown.Bound == nil || stopping {
			continue
		}
		a := o.attempts[shown.Bound.Pod.UID]
		if a == nil {
			continue
		}
		undone := fmt.Sprint(a.begun["undo second"], a.begun["undo first"])
		switch want := fmt.Sprint(a.begun["second"], a.begun["first"]); {
		case shown.Bound.Err == nil && undone != "0 0":
			o.fails("%s is bound, and was undone: %v", shown.Bound.Pod, a.order)
		case shown.Bound.Err != nil && (undone != want || a.begun["undo second"] == 1 && a.order[len(a.order)-2] != "undo second"):
			o.fails("the binding of %s has failed with %w; called were %v", shown.Bound.Pod, shown.Bound.Err, a.order)
		}
	}
	return o.wrong
}
