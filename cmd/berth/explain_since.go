package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/answers/advice"
	"github.com/berth-scheduler/berth/internal/answers/attribution"
	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// The short form of changes has at most screenLines lines, too.
const (
	shortLost   = 3
	shortCauses = 3
	// shortChanges is how many changes of a cause a line lists.
	shortChanges = 2
)

// runSince explains why the result for a pod or a pod group differs from an older
// snapshot.
func (e *explainFlags) runSince(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer, bar *progress) error {
	switch {
	case e.pod == "" && e.group == "":
		return wrong{errors.New("--since needs a pod or a pod group: name it with --pod NAMESPACE/NAME or --pod-group NAMESPACE/NAME")}
	case !slices.Contains([]string{"table", "wide", "json", "yaml"}, e.output):
		return e.noRows()
	}
	scheduler, now, err := e.read(ctx, stdin, bar)
	if err != nil {
		return err
	}
	then, err := manifest.Options{Progress: bar.reading}.Read(e.since, stdin)
	if err != nil {
		return wrong{fmt.Errorf("--since: %w", err)}
	}
	result, err := e.resultSince(scheduler, then, now)
	if err != nil {
		return err
	}
	bar.clear()
	e.noteAssumed(stderr)
	notes(stderr, scheduler, now)
	return e.printResult(stdout, result)
}

// printResult prints in the format of -o.
func (e *explainFlags) printResult(stdout io.Writer, result *attribution.Result) error {
	if e.output == "json" || e.output == "yaml" {
		return printObject(stdout, e.output, result)
	}
	out := bufio.NewWriter(stdout) // keeps the first error
	if e.output == "wide" {
		printSinceWide(out, result)
	} else {
		printSince(out, result)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// resultSince finds the causes of a different result for the named pod or pod group.
func (e *explainFlags) resultSince(scheduler *config.Config, then, now *manifest.Cluster) (*attribution.Result, error) {
	of := func(c *manifest.Cluster) explain.Objects {
		return explain.Objects{Nodes: c.Nodes, Pods: c.Pods, Others: c.Objects()}
	}
	if e.group != "" {
		key, err := e.groupSince(scheduler, then, now)
		if err != nil {
			return nil, wrong{err}
		}
		return explain.SinceForGroup(scheduler, of(then), of(now), key, time.Now())
	}
	key, err := e.askedSince(scheduler, then, now)
	if err != nil {
		return nil, wrong{err}
	}
	return explain.Since(scheduler, of(then), of(now), key, time.Now())
}

// groupSince returns the pod group of --pod-group. At least one snapshot must have
// members, and the group must not belong to a tree.
func (e *explainFlags) groupSince(scheduler *config.Config, then, now *manifest.Cluster) (key model.GroupKey, err error) {
	if key, _, err = onlyGroup(now, e.group, scheduler); err != nil {
		if key, _, err = onlyGroup(then, e.group, scheduler); err != nil {
			return key, err
		}
	}
	members := false
	for _, c := range []*manifest.Cluster{then, now} {
		for _, g := range c.PodGroups {
			if g.Namespace+"/"+g.Name == e.group && scheduler.Trees && g.Spec.ParentCompositePodGroupName != nil {
				return key, fmt.Errorf("--pod-group %q: --since does not support this group, because it is scheduled together with the other groups of CompositePodGroup %s", e.group, *g.Spec.ParentCompositePodGroupName)
			}
		}
		for _, pod := range c.Pods {
			if groupOf(pod) != e.group {
				continue
			}
			if members = true; !hasProfile(scheduler, pod.Spec.SchedulerName) {
				return key, fmt.Errorf("--pod-group %q: no profile has the scheduler name %q of pod %s; the profiles are %s", e.group, pod.Spec.SchedulerName, nameOf(pod), quoted(scheduler.SchedulerNames()))
			}
		}
	}
	if !members {
		return key, fmt.Errorf("--pod-group %q: no members in either snapshot", e.group)
	}
	return key, nil
}

// askedSince returns the pod of --pod. A snapshot must have it, it must not have ended,
// and it must not be scheduled as part of a group.
func (e *explainFlags) askedSince(scheduler *config.Config, then, now *manifest.Cluster) (model.PodKey, error) {
	if !isQualified(e.pod) {
		return model.PodKey{}, fmt.Errorf("--pod %q: must be NAMESPACE/NAME%s", e.pod, hint(now.Pods, e.pod))
	}
	namespace, name, _ := strings.Cut(e.pod, "/")
	found := false
	for _, pods := range [][]*v1.Pod{then.Pods, now.Pods} {
		for _, pod := range pods {
			if nameOf(pod) != e.pod {
				continue
			}
			found = true
			switch {
			case pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed:
				return model.PodKey{}, fmt.Errorf("--pod %q: the pod has ended in one of the snapshots, its phase is %s", e.pod, pod.Status.Phase)
			case !hasProfile(scheduler, pod.Spec.SchedulerName):
				return model.PodKey{}, fmt.Errorf("--pod %q: no profile has the pod's scheduler name %q; the profiles are %s", e.pod, pod.Spec.SchedulerName, quoted(scheduler.SchedulerNames()))
			case scheduler.Groups && groupOf(pod) != "":
				return model.PodKey{}, fmt.Errorf("--pod %q: the pod is scheduled together with pod group %s: use --pod-group %s", e.pod, groupOf(pod), groupOf(pod))
			}
		}
	}
	if !found {
		return model.PodKey{}, fmt.Errorf("--pod %q: pod not found in either snapshot%s%s", e.pod, hint(now.Pods, e.pod), wordHint(e.pod))
	}
	return model.PodKey{Namespace: namespace, Name: name}, nil
}

// printSince prints on one screen why the result changed.
func printSince(w io.Writer, r *attribution.Result) {
	lines := sinceHead(r)
	switch worse := worseOf(r); {
	case r.Direction == "" && r.Then.Message != r.Now.Message:
		lines = append(lines, saidIf("Then: ", r.Then.Message)...)
		lines = append(lines, saidIf("Now: ", r.Now.Message)...)
	case r.Direction == "" || len(r.Lost) == 0:
		lines = append(lines, saidIf("", worse.Message)...)
	}
	if r.Direction != "" {
		lines = append(lines, lostLines(r, shortLost)...)
		lines = append(lines, causesHead(r))
		for i := range r.Causes[:min(shortCauses, len(r.Causes))] {
			lines = append(lines, "  "+causeLine(&r.Causes[i]))
		}
		if rest := len(r.Causes) - shortCauses; rest > 0 {
			lines = append(lines, fmt.Sprintf("  %d more with -o wide", rest))
		}
	}
	for _, line := range lines {
		fmt.Fprintln(w, cutLine(line))
	}
}

// printSinceWide prints the whole result.
func printSinceWide(w io.Writer, r *attribution.Result) {
	for _, line := range sinceHead(r) {
		fmt.Fprintln(w, line)
	}
	for _, a := range []struct {
		when string
		*attribution.Answer
	}{{"Then", &r.Then}, {"Now", &r.Now}} {
		if a.Message != "" {
			fmt.Fprintf(w, "%s: %s\n", a.when, a.Message)
		}
	}
	fmt.Fprintf(w, "\nDifferences that scheduling can read: %d; decisions made: %d%s\n", r.Differences, r.Decisions, map[bool]string{true: " (the search was cut short)"}[r.CutShort])
	if r.Direction == "" {
		return
	}
	for _, line := range lostLines(r, len(r.Lost)) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w, causesHead(r))
	for i := range r.Causes {
		c := &r.Causes[i]
		fmt.Fprintf(w, "  %d of %d%s%s\n", i+1, len(r.Causes), arrow(c), isMinimal(c))
		for j := range c.Changes {
			fmt.Fprintf(w, "    %s\n", c.Changes[j].Text)
		}
	}
}

func isMinimal(c *attribution.Cause) string {
	switch {
	case !c.Minimal:
		return "; the search was cut short, and some of it may not matter"
	case len(c.Changes) == 1:
		return ""
	case c.Exact:
		return "; no part of it is enough"
	}
	return "; none of it can be left out"
}

// sinceHead describes the old and the new result.
func sinceHead(r *attribution.Result) []string {
	lines := []string{fmt.Sprintf("Pod %s: then %s; now %s.", r.Pod, answered(&r.Then), answered(&r.Now))}
	if r.PodGroup != "" {
		lines = []string{fmt.Sprintf("Pod group %s: then %s; now %s.", r.PodGroup, answeredOfGroup(&r.Then), answeredOfGroup(&r.Now))}
	}
	switch {
	case r.PodGroup != "" && r.OnlyNow:
		lines = append(lines, "The older snapshot has no members, so the members of the newer snapshot are judged in it.")
	case r.PodGroup != "" && r.OnlyThen:
		lines = append(lines, "The newer snapshot has no members, so the members of the older snapshot are judged in it.")
	case r.OnlyNow:
		lines = append(lines, "The older snapshot does not have the pod: it is judged there as it is now.")
	case r.OnlyThen:
		lines = append(lines, "The newer snapshot does not have the pod: it is judged there as it was then.")
	}
	if r.Direction == "" {
		lines = append(lines, fmt.Sprintf("The result is the same (differences that scheduling can read: %d).", r.Differences))
	}
	return lines
}

// saidIf returns a line, or none for an empty text.
func saidIf(when, text string) []string {
	if text == "" {
		return nil
	}
	return []string{when + text}
}

// worseOf returns the result of the snapshot whose differences are applied or undone.
func worseOf(r *attribution.Result) *attribution.Answer {
	if r.Direction == attribution.Apply {
		return &r.Then
	}
	return &r.Now
}

// answered describes a result.
func answered(a *attribution.Answer) string {
	text := map[attribution.Verdict]string{
		attribution.Failed: "scheduling fails", attribution.Gated: "it is gated", attribution.Pending: "it has no node", attribution.Preempts: "pods would be evicted for it from " + a.Node,
		attribution.Placed: "it would go to " + a.Node,
	}[a.Verdict]
	switch {
	case a.On == "":
	case a.On == a.Node:
		text = "it is on " + a.On
	default:
		text = "it is on " + a.On + ", and decided again " + text
	}
	return fmt.Sprintf("%s (%d of %d nodes are feasible)", text, a.Feasible, a.Nodes)
}

// answeredOfGroup describes the result for a pod group.
func answeredOfGroup(a *attribution.Answer) string {
	text := map[attribution.Verdict]string{
		attribution.Failed: "scheduling fails", attribution.Gated: "it is gated", attribution.Pending: "it would not start", attribution.Preempts: "pods would be evicted for it", attribution.Placed: "it would start",
	}[a.Verdict]
	switch {
	case a.Verdict == attribution.Placed:
		return fmt.Sprintf("%s (%d of %d members would have nodes)", text, a.Fit, a.Members)
	case a.Members == 1:
		return text + " (1 member)"
	}
	return fmt.Sprintf("%s (%d members)", text, a.Members)
}

// lostLines lists the reasons that reject nodes which are feasible in the other snapshot.
func lostLines(r *attribution.Result, most int) []string {
	if len(r.Lost) == 0 {
		return nil
	}
	head := "Nodes feasible only in the older snapshot:"
	if r.Direction == attribution.Apply {
		head = "Nodes feasible only in the newer snapshot:"
	}
	lines := []string{head}
	for i := range r.Lost[:min(most, len(r.Lost))] {
		l := &r.Lost[i]
		line := fmt.Sprintf("%7d  ", l.Nodes)
		if l.Plugin != "" {
			line += l.Plugin + ": "
		}
		examples := l.Examples[:min(2, len(l.Examples))]
		lines = append(lines, line+strings.Join(l.Reasons, ", ")+" ("+strings.Join(examples, ", ")+more(" and %d more", l.Nodes-len(examples))+")")
	}
	if rest := len(r.Lost) - most; rest > 0 {
		n := 0
		for i := range r.Lost[most-1:] {
			n += r.Lost[most-1+i].Nodes
		}
		lines[most] = fmt.Sprintf("%7d  for %d further reasons (-o wide shows them)", n, rest+1)
	}
	return lines
}

// causesHead introduces the causes, or reports that none was found.
func causesHead(r *attribution.Result) string {
	if len(r.Causes) == 0 {
		return fmt.Sprintf("No cause was found within the limits of the search (differences: %d; decisions made: %d).", r.Differences, r.Decisions)
	}
	where, want := "Undone in the newer snapshot", &r.Then
	if r.Direction == attribution.Apply {
		where, want = "Made in the older snapshot", &r.Now
	}
	does := "changes the answer to that one"
	switch {
	case r.Then.Verdict == r.Now.Verdict && want.Node != "":
		does = "has " + want.Node + " taken"
	case want.Verdict == attribution.Placed && r.PodGroup != "":
		does = "lets it start"
	case want.Verdict == attribution.Placed:
		does = "gives it a node"
	case want.Verdict == attribution.Preempts:
		does = "has pods evicted for it"
	}
	cut := ""
	if r.CutShort {
		cut = "; not all could be tried"
	}
	return fmt.Sprintf("%s, each of these %s, and was tried (differences: %d%s):", where, does, r.Differences, cut)
}

func arrow(c *attribution.Cause) string {
	if c.Node == "" {
		return ""
	}
	return " → " + c.Node
}

// causeLine formats a cause as a line. Many changes are grouped by kind and node.
func causeLine(c *attribution.Cause) string {
	type sort struct {
		kind attribution.Kind
		node string
	}
	var order []sort
	of := map[sort][]*attribution.Change{}
	for i := range c.Changes {
		s := sort{c.Changes[i].Kind, c.Changes[i].Node}
		if of[s] == nil {
			order = append(order, s)
		}
		of[s] = append(of[s], &c.Changes[i])
	}
	var texts []string
	for _, s := range order {
		all := of[s]
		if what := ofPods(s.kind, s.node); what != "" && len(all) > shortChanges {
			var names []string
			for _, change := range all {
				names = append(names, strings.TrimPrefix(change.Object, "pod "))
			}
			texts = append(texts, fmt.Sprintf("%d pods %s: %s", len(all), what, advice.Few(names, shortVictims)))
			continue
		}
		var each []string
		for _, change := range all {
			each = append(each, change.Text)
		}
		texts = append(texts, advice.Few(each, shortChanges))
	}
	line := strings.Join(texts, ", and ") + arrow(c)
	if !c.Minimal {
		line += " (some of it may not matter)"
	}
	return line
}

// ofPods describes a change of several pods. It returns "" for other kinds.
func ofPods(kind attribution.Kind, node string) string {
	switch kind {
	case attribution.PodCame:
		return "came to node " + node
	case attribution.PodLeft:
		return "are no longer on node " + node
	case attribution.PodMoved:
		return "are on another node"
	case attribution.PodChanged:
		return "on node " + node + " have changed"
	}
	return ""
}
