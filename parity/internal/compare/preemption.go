package compare

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/internal/cluster/ingest"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/engine"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// Preempts is the plugin that preempts pods.
const Preempts = "DefaultPreemption"

// decider makes Berth's decisions about single pods, as its loop does, without effects.
type decider struct {
	state  *state.State
	engine *engine.Engine
}

// newDecider trims the objects in place.
func newDecider(scheduler *config.Config, tc cases.Case) (*decider, error) {
	made, err := engine.New(engine.Config{Profiles: scheduler.Profiles})
	if err != nil {
		return nil, fmt.Errorf("build the engine: %w", err)
	}
	d := &decider{state: state.New(), engine: made}
	if err := trim(tc); err != nil {
		return nil, err
	}
	in := ingest.New(scheduler.Compile())
	for _, o := range tc.Objects() {
		if row := kinds.Of(o); row != nil && (row.Kind == model.PodKind || row.Kind == model.NodeKind || slices.Contains(scheduler.Reads(), row.Kind)) {
			in.Set(o.(kinds.Object))
		}
	}
	d.state.SetNow(time.Now())
	d.state.Apply(in.Drain())
	return d, nil
}

func (d *decider) decide(pod *model.Pod) plan.Decision {
	waiting := *pod
	waiting.Terminating = false
	return d.engine.Decide(d.state.View(), plan.Alone(&waiting))
}

// preemption compares the results of PostFilter plugins. Each text is compared up to the
// name of its node, because Berth may choose another one of equally good nodes.
func (c *comparison) preemption(d *plan.Decision, pod *model.Pod, verdict *upstream.Verdict) {
	for _, point := range PreemptionDifferences(d, pod, verdict) {
		c.differ("", point.What, point.KubeScheduler, point.Berth)
	}
}

// PreemptionDifferences returns the differences between both decisions about a pod
// without a feasible node: the whole text, the nomination, the chosen node, the victims,
// and the pods that lose their nomination.
func PreemptionDifferences(d *plan.Decision, pod *model.Pod, verdict *upstream.Verdict) []Difference {
	theirs := verdict.Preemption
	var all []Difference
	differ := func(what, theirs, ours string) {
		if theirs != ours {
			all = append(all, Difference{Pod: pod.String(), What: what, KubeScheduler: theirs, Berth: ours})
		}
	}
	own := d.NominationOf(pod)
	if theirs.Mode != upstream.Set || own.Mode != plan.Set {
		differ("message", quoted(verdict.Message), quoted(report.Message(d)))
		differ("nomination", theirNomination(theirs, pod), ourNomination(own, pod))
		differ("victims", fmt.Sprint(theirVictims(theirs)), fmt.Sprint(ourVictims(d)))
		return all
	}
	chosen := theirs.Candidate(own.NodeName)
	if best := theirs.Best(); chosen == nil || !slices.Contains(best, own.NodeName) {
		differ("node to make room on", fmt.Sprintf("one of %v", best), fmt.Sprintf("%s, %v", own.NodeName, ourVictims(d)))
		return all
	}
	differ("victims on "+own.NodeName, fmt.Sprint(chosen.VictimNames()), fmt.Sprint(ourVictims(d)))
	text := verdict.MessageBefore + fmt.Sprintf(" preemption: found a potential placement for pod on node %s, preempting %d victims", own.NodeName, len(chosen.Victims))
	if theirs.NodeName == own.NodeName {
		text = verdict.Message
		differ("pods no longer nominated", fmt.Sprint(theirs.Outranked), fmt.Sprint(ourOutranked(d, pod)))
	}
	differ("message", quoted(text), quoted(report.Message(d)))
	return all
}

// theirNomination and ourNomination describe the change of a pod's nominated node.
// Without a nominated node, nothing is cleared.
func theirNomination(p *upstream.Preemption, pod *model.Pod) string {
	if p.Mode == upstream.Clear && pod.NominatedNode == "" {
		return string(upstream.Keep)
	}
	return strings.TrimSpace(string(p.Mode) + " " + p.NodeName)
}

func ourNomination(n plan.Nomination, pod *model.Pod) string {
	switch {
	case n.Mode == plan.Set:
		return string(upstream.Set) + " " + n.NodeName
	case n.Mode == plan.Clear && pod.NominatedNode != "":
		return string(upstream.Clear)
	}
	return string(upstream.Keep)
}

func theirVictims(p *upstream.Preemption) []string {
	if p.Mode != upstream.Set {
		return nil
	}
	return p.Candidate(p.NodeName).VictimNames()
}

func ourVictims(d *plan.Decision) []string {
	var names []string
	for i := range d.Evictions {
		names = append(names, d.Evictions[i].Pod.String())
	}
	slices.Sort(names)
	return names
}

func ourOutranked(d *plan.Decision, preemptor *model.Pod) []string {
	var names []string
	for i := range d.Nominations {
		if n := &d.Nominations[i]; n.Pod.UID != preemptor.UID {
			names = append(names, n.Pod.String())
		}
	}
	slices.Sort(names)
	return names
}
