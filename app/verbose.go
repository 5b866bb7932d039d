package app

import (
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/queue"
)

// verbose logs attempts, scores, moves between queues and slow attempts, with the texts
// and levels of kube-scheduler. At lower levels it only compares durations.
//
// It is a loop.Witness, because scores are not part of a decision: at level 4 and above
// the engine computes them a second time.
type verbose struct {
	two, three, four, five, ten klog.Logger
	// phases returns the phases of the present round's decision.
	phases func(whole time.Duration) map[string]time.Duration
	// loud means level 3 or above, which is looked up whenever the loop has time, because
	// /debug/flags/v may change it.
	loud bool
	// plain logs no scores: computing them changes the work of later decisions, which a
	// recording does not contain.
	plain bool
	// announced means that the present group's attempt is in the log.
	announced bool
	// earlier has the time of unfinished turns, by the UID of their first pod.
	earlier map[types.UID]time.Duration
}

func newVerbose(log klog.Logger, phases func(time.Duration) map[string]time.Duration) *verbose {
	l := &verbose{two: log.V(2), three: log.V(3), four: log.V(4), five: log.V(5), ten: log.V(10), phases: phases, earlier: map[types.UID]time.Duration{}}
	l.Standing(nil)
	return l
}

// bestLogged is the number of nodes in the short form of scores.
const bestLogged = 3

// Decided logs the attempt, and the scores of its nodes. It stores no details. An
// unfinished decision is made again in a later round.
func (l *verbose) Decided(by loop.Detailer, v state.View, d *plan.Decision, _ int, _ time.Duration) uint64 {
	if !l.loud || d.Outcome == plan.Terminating || d.Outcome == plan.Unfinished {
		return 0
	}
	if d.Group == nil {
		l.three.Info("Attempting to schedule pod", "pod", d.Pod)
	} else {
		l.announce(rootOf(d.Group, d.Tree))
		l.four.Info("Attempting to schedule a pod belonging to a pod group", "podGroup", d.Group.Key, "pod", d.Pod)
	}
	if l.plain || !l.four.Enabled() || d.Outcome != plan.Placed || d.Feasible < 2 { // one node is not scored
		return 0
	}
	if l.ten.Enabled() {
		l.scores(by, v, d)
		return 0
	}
	if detail, ok := by.Detail(v, d.Pod, bestLogged); ok {
		l.four.Info("Best nodes for pod", "pod", d.Pod, "feasibleNodes", detail.Feasible, "nodes", shortly(detail.Best))
	}
	return 0
}

// scores logs each plugin's weighted score of each node, and the sums.
func (l *verbose) scores(by loop.Detailer, v state.View, d *plan.Decision) {
	detail, ok := by.Detail(v, d.Pod, d.Feasible)
	if !ok {
		return
	}
	for i := range detail.Best {
		for _, s := range detail.Best[i].Scores {
			l.ten.Info("Plugin scored node for pod", "pod", d.Pod, "plugin", s.Plugin, "node", detail.Best[i].Name, "score", s.Score*s.Weight)
		}
	}
	for i := range detail.Best {
		l.ten.Info("Calculated node's final score for pod", "pod", d.Pod, "node", detail.Best[i].Name, "score", detail.Best[i].Total)
	}
}

// shortly returns nodes with their totals, and the weighted scores that are not 0.
func shortly(nodes []plan.NodeAnswer) string {
	var b strings.Builder
	for i := range nodes {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(nodes[i].Name + " " + strconv.FormatInt(nodes[i].Total, 10))
		sign := " = "
		for _, s := range nodes[i].Scores {
			if points := s.Score * s.Weight; points != 0 {
				b.WriteString(sign + strconv.FormatInt(points, 10) + " " + s.Plugin)
				sign = " + "
			}
		}
	}
	return b.String()
}

// Round logs the moves of a round, the result of a group, and an attempt that was slow.
func (l *verbose) Round(r *loop.Round) {
	if r.Turn != nil {
		l.slow(r)
	}
	switch {
	case r.Unfinished: // the next round may be another group's
		l.announced = false
	case r.Attempt != nil && r.Attempt.Group != nil:
		l.group(r.Attempt)
	}
	if l.loud {
		for i := range r.Moves {
			l.move(r, &r.Moves[i])
		}
	}
}

// Standing looks up the level.
func (l *verbose) Standing(*loop.Standing) { l.loud = l.three.Enabled() }

// slowAfter is the duration of an attempt that kube-scheduler logs with its steps.
const slowAfter = 100 * time.Millisecond

// maxEarlier bounds the unfinished turns whose time is kept. Pods may be deleted during
// such a turn, so at the bound all are forgotten.
const maxEarlier = 1000

// slow logs an attempt that took long, of all its rounds, with the time of each phase of
// the last one.
func (l *verbose) slow(r *loop.Round) {
	// Deciding has the time of logging the scores of a group's members, not of a pod.
	total := r.Popping + r.Deciding + r.Settling
	if len(l.earlier) > 0 {
		total += l.earlier[r.Turn.UID]
		delete(l.earlier, r.Turn.UID)
	}
	if r.Unfinished {
		if len(l.earlier) >= maxEarlier {
			clear(l.earlier)
		}
		l.earlier[r.Turn.UID] = total
		return
	}
	if total < slowAfter || r.Attempt == nil || !l.two.Enabled() {
		return
	}
	values := []any{"pod", r.Turn}
	if a := r.Attempt; a.Group != nil {
		values = []any{"podGroup", a.Root().Key, "pods", len(a.Members)}
	}
	values = append(values, "total", millis(total), "rounds", r.Attempt.Rounds+1, "pop", millis(r.Popping))
	if r.Attempt.Group == nil { // of a group only the last member's are known
		phases := l.phases(r.Deciding)
		for _, name := range []string{"PreFilter", "Filter", "Score", "PostFilter"} {
			if took, entered := phases[name]; entered {
				values = append(values, name, millis(took))
			}
		}
	} else {
		values = append(values, "decide", millis(r.Deciding))
	}
	l.two.Info("Trace: Scheduling took long", append(values, "settle", millis(r.Settling))...)
}

// millis returns a duration in milliseconds, the unit of kube-scheduler's trace.
func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// rootOf identifies the group or tree of a member.
func rootOf(group *model.PodGroup, tree *model.GroupTree) model.RootKey {
	if tree == nil {
		return model.RootKey{Key: group.Key}
	}
	return model.RootKey{Key: tree.Key(), Composite: tree.Composite != nil}
}

// typeOf is kube-scheduler's name of the type of a group.
func typeOf(composite bool) string {
	if composite {
		return "compositepodgroup"
	}
	return "podgroup"
}

// announce logs the attempt of a group once, before its members.
func (l *verbose) announce(root model.RootKey) {
	if !l.announced {
		l.announced = true
		l.three.Info("Attempting to schedule pod group", "podGroupType", typeOf(root.Composite), "podGroup", root.Key)
	}
}

// group logs the result of a group's attempt.
func (l *verbose) group(a *plan.Attempt) {
	if l.loud && a.Outcome != plan.Terminating {
		l.announce(a.Root())
	}
	l.announced = false
	if !l.two.Enabled() {
		return
	}
	without := 0
	for i := range a.Members {
		if a.Members[i].Outcome != plan.Placed {
			without++
		}
	}
	group := a.Root().Key
	switch {
	case a.Outcome == plan.Placed:
		l.two.Info("Successfully scheduled a pod group", "podGroup", group, "scheduledPods", len(a.Members)-without, "unschedulablePods", without)
	case a.Waits():
		l.two.Info("Pod group is waiting for preemption", "podGroup", group, "unschedulablePods", without, "err", a.Message)
	case a.Outcome == plan.Unschedulable:
		l.two.Info("Unable to schedule a pod group", "podGroup", group, "unschedulablePods", without, "err", a.Message)
	}
}

// queueName is kube-scheduler's name of a queue in the log.
func queueName(queue string) string {
	switch queue {
	case "active":
		return "Active"
	case "backoff":
		return "Backoff"
	case "unschedulable":
		return "Unschedulable"
	}
	return queue
}

// attemptFailed is the event of moves after a failed attempt.
const attemptFailed = "ScheduleAttemptFailure"

// move logs a move. The moves after failed attempts are logged at level 3, all others at
// level 5.
func (l *verbose) move(r *loop.Round, m *queue.Move) {
	to := queueName(m.Queue)
	switch {
	case m.Event == attemptFailed && m.Pod == nil:
		l.three.Info("Pod group moved to an internal scheduling queue", "podGroup", *m.Group, "event", m.Event, "queue", to)
	case m.Event == attemptFailed:
		l.three.Info("Pod moved to an internal scheduling queue", "pod", m.Pod, "event", m.Event, "queue", to, "unschedulable plugins", rejectors(r.Attempt, m.Pod))
	case !l.five.Enabled():
	case m.Pod == nil:
		l.five.Info("Entity moved to an internal scheduling queue", "type", typeOf(m.Composite), "entity", *m.Group, "event", m.Event, "queue", to)
	case m.Queue == "unschedulable":
		l.five.Info("Entity moved to an internal scheduling queue, because it is gated", "type", "pod", "entity", m.Pod, "event", m.Event, "queue", to)
	default:
		l.five.Info("Entity moved to an internal scheduling queue", "type", "pod", "entity", m.Pod, "event", m.Event, "queue", to)
	}
}

// rejectors returns the plugins that rejected a pod in an attempt.
func rejectors(a *plan.Attempt, pod *model.Pod) []string {
	if a != nil {
		for i := range a.Members {
			if d := &a.Members[i]; d.Pod == pod && d.Rejection != nil {
				return d.Rejection.Plugins
			}
		}
	}
	return []string{}
}
