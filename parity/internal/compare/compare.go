// Package compare compares Berth's verdicts with kube-scheduler's.
//
// It takes cases. It returns the number of comparisons in each, one for each pending pod
// and node, and the differences. Berth runs as in "berth explain", with objects trimmed
// as by its informers. kube-scheduler runs through package upstream. It owns nothing
// beyond a call, and never decides which of the two is right.
package compare

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// Result is the result for one case.
type Result struct {
	missing []string // plugins that Berth lacks

	// Passed and Failed count pairs of a pending pod and a node. A difference about the
	// whole pod fails all its pairs, and at least one.
	Passed, Failed int
	// Rejected and Scored count the pairs that kube-scheduler rejected and scored.
	Rejected, Scored int
	// Preempted counts the pods for which kube-scheduler finds victims.
	Preempted   int
	Differences []Difference
}

// Difference is a disagreement between Berth and kube-scheduler.
type Difference struct {
	Pod string `json:"pod"`
	// Node is empty if the difference is about the whole pod.
	Node          string `json:"node,omitempty"`
	What          string `json:"what"`
	KubeScheduler string `json:"kubeScheduler"`
	Berth         string `json:"berth"`
}

// String returns the difference in one line.
func (d Difference) String() string {
	where := "pod " + d.Pod
	if d.Node != "" {
		where += " on " + d.Node
	}
	return fmt.Sprintf("%s: %s: kube-scheduler %s, Berth %s", where, d.What, d.KubeScheduler, d.Berth)
}

// Case compares the verdicts on every pending pod of a case.
func (p Pair) Case(tc cases.Case) (Result, error) {
	if p.SameDevices {
		tc = tc.SameDevices()
	}
	if p.Sends {
		sent, err := tc.Sent()
		if err != nil {
			return Result{}, err
		}
		tc = sent
	}
	if tc.Outside {
		return p.outsideCase(tc)
	}
	theirs, err := p.load(tc.Clone())
	if err != nil {
		return Result{}, err
	}
	defer theirs.Close()
	scheduler, err := p.Parse(tc.Config)
	if err != nil {
		return Result{}, err
	}
	ours, err := newSnapshot(scheduler, tc.Clone())
	if err != nil {
		return Result{}, err
	}
	objects := map[string]*v1.Pod{}
	for _, p := range tc.Pods {
		objects[p.Namespace+"/"+p.Name] = p
	}
	decides, err := newDecider(scheduler, tc.Clone())
	if err != nil {
		return Result{}, err
	}
	total, claims := Result{missing: scheduler.Missing}, claimsOf(&tc)
	for _, pod := range ours.Pending() {
		object := objects[pod.String()]
		verdict, err := theirs.Explain(object)
		if err != nil {
			return Result{}, err
		}
		a, err := ours.Tried(pod)
		if err != nil {
			return Result{}, err
		}
		c := comparison{pod: a.Pod, missing: total.missing}
		if len(tc.Devices) > 0 {
			d := decides.decide(pod)
			if err := errors.Join(c.deallocation(claims, &d, verdict), c.reserved(theirs, claims, &d, object, verdict)); err != nil {
				return Result{}, fmt.Errorf("pod %s: %w", pod, err)
			}
		}
		total.add(&c, ours, a, decides, pod, verdict)
	}
	return total, nil
}

// newSnapshot trims the objects in place.
func newSnapshot(scheduler *config.Config, tc cases.Case) (*explain.Snapshot, error) {
	if err := trim(tc); err != nil {
		return nil, err
	}
	return explain.New(scheduler, tc.Nodes, tc.Pods, tc.Others(), time.Now())
}

// trim trims the objects of a case in place, unless external plugins or extenders need
// whole objects.
func trim(tc cases.Case) error {
	if tc.Outside {
		return nil
	}
	trim := kinds.Trim()
	for _, o := range tc.Objects() {
		if _, err := trim(o); err != nil {
			return fmt.Errorf("trim a %T: %w", o, err)
		}
	}
	return nil
}

func (r *Result) add(c *comparison, ours *explain.Snapshot, a *explain.Explanation, decides *decider, pod *model.Pod, verdict *upstream.Verdict) {
	c.whole(ours, a, verdict)
	if verdict.Preemption != nil && !slices.Contains(r.missing, Preempts) {
		if verdict.Preemption.Mode == upstream.Set {
			r.Preempted++
		}
		d := decides.decide(pod)
		c.preemption(&d, pod, verdict)
	}
	r.nodes(c, a, verdict)
}

// nodes compares the verdicts on single nodes, and counts.
func (r *Result) nodes(c *comparison, a *explain.Explanation, verdict *upstream.Verdict) {
	pairs := max(1, len(verdict.Nodes))
	failed := 0
	if len(c.differences) > 0 {
		failed = pairs
	}
	for i := range verdict.Nodes {
		theirs := &verdict.Nodes[i]
		if theirs.First != nil {
			r.Rejected++
		}
		if len(theirs.Scores) > 0 {
			r.Scored++
		}
		if i >= len(a.Nodes) {
			continue // the whole pod has failed
		}
		if before := len(c.differences); c.node(&a.Nodes[i], theirs) > before && failed < pairs {
			failed++
		}
	}
	r.Passed, r.Failed = r.Passed+pairs-failed, r.Failed+failed
	r.Differences = append(r.Differences, c.differences...)
}

// comparison collects the differences of one pod.
type comparison struct {
	pod         string
	missing     []string
	differences []Difference
}

func (c *comparison) differ(node, what, theirs, ours string) {
	if theirs != ours {
		c.differences = append(c.differences, Difference{Pod: c.pod, Node: node, What: what, KubeScheduler: theirs, Berth: ours})
	}
}

// whole compares the verdicts on the pod as a whole, and the chosen node.
func (c *comparison) whole(ours *explain.Snapshot, a *explain.Explanation, verdict *upstream.Verdict) {
	theirError, theirMessage := theirTexts(verdict, a.Error)
	c.differ("", "error", quoted(theirError), quoted(withoutNames(a.Error)))
	c.differ("", "gate", quoted(verdict.Gated), quoted(a.Gated))
	if verdict.Preemption == nil || slices.Contains(c.missing, Preempts) {
		c.differ("", "message", quoted(theirMessage), quoted(a.Message))
	}
	var names []string
	for i := range a.Nodes {
		names = append(names, a.Nodes[i].Name)
	}
	if verdict.Err == nil {
		var theirs []string
		for i := range verdict.Nodes {
			theirs = append(theirs, verdict.Nodes[i].Name)
		}
		c.differ("", "nodes", fmt.Sprint(theirs), fmt.Sprint(names))
	}
	summary := ours.Summarize(a)
	if taken := summary.Taken; !slices.Contains(verdict.Best, taken) && (taken != "" || len(verdict.Best) > 0) {
		c.differ("", "chosen node", fmt.Sprintf("one of %v", verdict.Best), quoted(taken))
	}
	if summary.Equals > 0 {
		c.differ("", "nodes as good as the chosen one", fmt.Sprint(len(verdict.Best)), fmt.Sprint(summary.Equals))
	}
}

// theirTexts returns the texts of kube-scheduler's error, without names of devices, and
// of its rejection. If kube-scheduler has several errors including Berth's, it returns
// that one.
func theirTexts(verdict *upstream.Verdict, own string) (failure, message string) {
	switch {
	case errors.Is(verdict.Err, upstream.ErrNoNodes): // Berth's message, too
		return "", verdict.Err.Error()
	case verdict.Err != nil:
		failure, own = withoutNames(verdict.Err.Error()), withoutNames(own)
		for _, err := range verdict.Errs {
			if withoutNames(err.Error()) == own {
				failure = own
			}
		}
		return failure, ""
	}
	return "", verdict.MessageBefore
}

// node compares the verdicts on one node. It returns the number of differences so far.
func (c *comparison) node(ours *explain.Node, theirs *upstream.Node) int {
	c.differ(ours.Name, "feasible", fmt.Sprint(theirs.Feasible), fmt.Sprint(ours.Feasible))
	var first *explain.Rejection
	if len(ours.Rejections) > 0 {
		first = &ours.Rejections[0]
	}
	c.differ(ours.Name, "first objection", theirFirst(theirs.First), ourFirst(first))
	if theirs.All != nil {
		c.differ(ours.Name, "all objections", theirAll(theirs.All), ourAll(ours.Rejections))
	}
	c.differ(ours.Name, "scores", c.theirScores(theirs), ourScores(ours))
	return len(c.differences)
}

func theirFirst(r *upstream.Rejection) string {
	if r == nil {
		return "none"
	}
	return objection(r.Plugin, r.Code, r.Reasons)
}

func ourFirst(r *explain.Rejection) string {
	if r == nil {
		return "none"
	}
	return objection(r.Plugin, r.Code, r.Reasons)
}

// objection formats a rejection with sorted reasons, because reasons about extended
// resources come in the order of a map.
func objection(plugin, code string, reasons []string) string {
	sorted := slices.Sorted(slices.Values(reasons))
	if code == "Error" {
		for i := range sorted {
			sorted[i] = withoutNames(sorted[i])
		}
	}
	return fmt.Sprintf("%s %s %q", plugin, code, sorted)
}

func theirAll(all []upstream.Rejection) string {
	var texts []string
	for i := range all {
		texts = append(texts, theirFirst(&all[i]))
	}
	return strings.Join(texts, ", ")
}

func ourAll(all []explain.Rejection) string {
	var texts []string
	for i := range all {
		texts = append(texts, ourFirst(&all[i]))
	}
	return strings.Join(texts, ", ")
}

// Scores are written with the normalized value, the weight, and the total at the end.

// volumeBinding is a plugin that scores every pod in kube-scheduler, with 0 on every node
// for pods without volumes.
const volumeBinding = "VolumeBinding"

// scoresAll reports whether a plugin scores every pod in kube-scheduler.
func scoresAll(plugin string) bool { return plugin == volumeBinding || plugin == dynamicResources }

// theirScores formats kube-scheduler's scores. It leaves out zero scores of plugins that
// Berth lacks, and of VolumeBinding and DynamicResources.
func (c *comparison) theirScores(n *upstream.Node) string {
	var b strings.Builder
	for _, s := range n.Scores {
		if s.Normalised == 0 && (scoresAll(s.Plugin) || slices.Contains(c.missing, s.Plugin)) {
			continue
		}
		fmt.Fprintf(&b, "%s %d×%d, ", s.Plugin, s.Normalised, s.Weight)
	}
	if b.Len() == 0 {
		return "none"
	}
	fmt.Fprintf(&b, "total %d", n.Total)
	return b.String()
}

func ourScores(n *explain.Node) string {
	if len(n.Scores) == 0 {
		return "none"
	}
	var b strings.Builder
	for _, s := range n.Scores {
		if s.Score != 0 || !scoresAll(s.Plugin) {
			fmt.Fprintf(&b, "%s %d×%d, ", s.Plugin, s.Score, s.Weight)
		}
	}
	fmt.Fprintf(&b, "total %d", *n.Total)
	return b.String()
}

func quoted(s string) string {
	if s == "" {
		return "none"
	}
	return fmt.Sprintf("%q", s)
}
