package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	clients "k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/answers/explain"
)

// checkRunning checks the flags about the running scheduler. The history is of one pod.
func (e *explainFlags) checkRunning() error {
	if e.running.at != "" && e.pod == "" {
		return fmt.Errorf("--%s %s: shows the history of one pod: name the pod, or list what waits with kubectl berth queue", schedulerFlag, e.running.at)
	}
	return e.running.check()
}

// answerNarrow answers if the user may not list the cluster: about a pod that was read
// alone, or else about the pods of a namespace.
func (e *explainFlags) answerNarrow(ctx context.Context, stdout, stderr io.Writer, alone *v1.Pod, failed error) error {
	if alone != nil {
		return e.printNarrow(stdout, stderr, alone, failed)
	}
	return e.printNarrowNamespace(ctx, stdout, stderr, failed)
}

// askFirst reads the named pod of a live cluster and, with --scheduler, its history,
// before anything is listed: both need rights in the pod's namespace only. It returns nil
// if the pod cannot be read alone; the lists then tell what is wrong.
func (e *explainFlags) askFirst(ctx context.Context, stderr io.Writer, bar *progress) (*v1.Pod, error) {
	if !isQualified(e.pod) || len(e.files) > 0 || len(e.since) > 0 {
		return nil, nil
	}
	namespace, name, _ := strings.Cut(e.pod, "/")
	scheduler, err := e.readConfig()
	if err != nil {
		return nil, err
	}
	pod := e.connection.pod(ctx, namespace, name)
	if pod == nil || e.running.at == "" {
		return pod, nil
	}
	e.past = e.running.ask(ctx, namespace, name, scheduler.Source).about(pod)
	if e.past.why != nil {
		bar.clear()
		fmt.Fprintf(stderr, "Note: the pod's history is missing: %v\n", e.past.why)
	}
	return pod, nil
}

// pod returns a pod, or nil if it cannot be read.
func (c *connection) pod(ctx context.Context, namespace, name string) *v1.Pod {
	access, err := c.access()
	if err != nil {
		return nil
	}
	client, err := clients.NewForConfig(access)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	pod, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return pod
}

// printNarrow answers from the history and the pod alone, if the user may not list the
// cluster. Without an answer it returns the error of the list.
func (e *explainFlags) printNarrow(stdout, stderr io.Writer, pod *v1.Pod, failed error) error {
	a := &explain.Explanation{Pod: nameOf(pod), Nodes: []explain.Node{}}
	from := "the pod's condition PodScheduled"
	if past := e.past.answer; past != nil {
		from = "the running scheduler"
		a.Profile, a.Decision, a.History = past.Profile, past.Decision, past.History
		if n := len(past.History.Kept); n > 0 {
			a.Message = past.History.Kept[n-1].Message
		}
	}
	if a.Message == "" {
		a.Message = scheduledMessage(pod)
	}
	switch {
	case pod.Spec.NodeName != "":
		return wrong{fmt.Errorf("pod %q is not pending, it is bound to node %q; if the cluster's scheduler is Berth, --%s shows why the pod is there",
			a.Pod, pod.Spec.NodeName, schedulerFlag)}
	case !isPending(pod), a.Message == "" && a.History == nil:
		return failed
	}
	fmt.Fprintf(stderr, "Note: %v\n", failed)
	fmt.Fprintf(stderr, "Note: without these permissions, the answer comes from %s alone, and has no suggestions", from)
	if e.running.at == "" {
		fmt.Fprintf(stderr, "; if the cluster's scheduler is Berth, --%s shows more", schedulerFlag)
	}
	fmt.Fprintln(stderr)
	return e.printOne(stdout, a, func(w io.Writer) {
		profile := pod.Spec.SchedulerName
		fmt.Fprintln(w, cutLine(fmt.Sprintf("Pod %s, scheduler %s: %s", a.Pod, profile, orNone(a.Message))))
		for _, line := range pastLines(a.History) {
			fmt.Fprintln(w, cutLine(line))
		}
		if e.output == "wide" {
			printPast(w, a.History)
		}
	})
}

// printNarrowNamespace answers about the pending pods of one namespace from their
// conditions, if the user may not list the cluster. Without the right to list the
// namespace, and for a pod group, it returns the error of the lists.
func (e *explainFlags) printNarrowNamespace(ctx context.Context, stdout, stderr io.Writer, failed error) error {
	switch {
	case len(e.files) > 0 || e.group != "":
		return failed
	case e.pod != "":
		return e.printNarrowNamed(ctx, stdout, stderr, failed)
	}
	namespace, err := e.connection.namespace()
	if err != nil {
		return err
	}
	pods, err := e.connection.list(ctx, namespace, unassigned)
	if err != nil {
		return narrowFailure(failed, err, namespace)
	}
	pods = slices.DeleteFunc(pods, func(p *v1.Pod) bool { return !isPending(p) || !e.chooses(p) })
	fmt.Fprintf(stderr, "Note: %v\n", failed)
	fmt.Fprintf(stderr, "Note: without these permissions, the answer comes from the conditions of the pods in namespace %s, and has no suggestions; "+
		"if the cluster's scheduler is Berth, kubectl berth explain POD --%s %s shows more\n", namespace, schedulerFlag, leader)
	all := make([]*explain.Explanation, len(pods))
	for i, pod := range pods {
		all[i] = &explain.Explanation{Pod: nameOf(pod), Profile: pod.Spec.SchedulerName, Message: scheduledMessage(pod), Nodes: []explain.Node{}}
	}
	return e.printAll(stdout, all, func(w io.Writer) { printMessages(w, all, e.output == "wide", namespace) })
}

// printNarrowNamed answers about a pod that cannot be read alone from the pods of its
// namespace: list and get are different rights.
func (e *explainFlags) printNarrowNamed(ctx context.Context, stdout, stderr io.Writer, failed error) error {
	if !isQualified(e.pod) {
		near := ""
		if namespace, err := e.connection.namespace(); err == nil {
			if pods, err := e.connection.list(ctx, namespace, unassigned); err == nil && len(pods) > 0 {
				near = hint(pods, e.pod)
			}
		}
		return wrong{fmt.Errorf("--pod %q: must be NAMESPACE/NAME%s", e.pod, near)}
	}
	namespace, name, _ := strings.Cut(e.pod, "/")
	pods, err := e.connection.list(ctx, namespace, fields.OneTermEqualSelector(metav1.ObjectNameField, name))
	if named := findPod(pods, e.pod); err == nil && named != nil {
		return e.printNarrow(stdout, stderr, named, failed)
	}
	if err == nil {
		pods, err = e.connection.list(ctx, namespace, unassigned)
	}
	if err != nil {
		return fmt.Errorf("%w%s", narrowFailure(failed, err, namespace), wordHint(e.pod))
	}
	return wrong{fmt.Errorf("--pod %q: pod not found in namespace %q%s%s", e.pod, namespace, hint(pods, e.pod), wordHint(e.pod))}
}

// narrowFailure is the error if neither the cluster nor a namespace can be listed.
func narrowFailure(failed, err error, namespace string) error {
	if isForbidden(err) {
		return fmt.Errorf("%w; for an answer from the conditions of the pods, request the ClusterRole view in namespace %q", failed, namespace)
	}
	return failed
}

// printMessages prints pods with their messages. Equal messages are one line, unless
// each pod is wanted.
func printMessages(w io.Writer, all []*explain.Explanation, each bool, namespace string) {
	if len(all) == 0 {
		fmt.Fprintf(w, "No pod is pending in namespace %s.\n", namespace)
	}
	type line struct{ scheduler, message, pod string }
	type pods struct {
		first string
		n     int
	}
	with := map[line]*pods{}
	var lines []line
	for _, a := range all {
		l := line{scheduler: a.Profile, message: a.Message}
		if each {
			l.pod = a.Pod
		}
		if with[l] == nil {
			with[l] = &pods{first: a.Pod}
			lines = append(lines, l)
		}
		with[l].n++
	}
	for _, l := range lines {
		others := ""
		if n := with[l].n - 1; n > 0 {
			others = fmt.Sprintf(" and %s", count(n, "other pod"))
		}
		fmt.Fprintln(w, cutLine(fmt.Sprintf("Pod %s%s, scheduler %s: %s", with[l].first, others, l.scheduler, orNone(l.message))))
	}
}

// unassigned selects pods that have no node.
var unassigned = fields.OneTermEqualSelector("spec.nodeName", "")

// list lists the pods of a namespace that a selector matches.
func (c *connection) list(ctx context.Context, namespace string, matching fields.Selector) (pods []*v1.Pod, err error) {
	access, err := c.access()
	if err != nil {
		return nil, err
	}
	client, err := clients.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: matching.String()})
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

// scheduledMessage returns why a scheduler has not placed a pod, as the pod's condition
// has it.
func scheduledMessage(pod *v1.Pod) string {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == v1.PodScheduled && c.Status != v1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// printOne prints one explanation in any format. table prints the table.
func (e *explainFlags) printOne(stdout io.Writer, a *explain.Explanation, table func(w io.Writer)) error {
	return e.printEach(stdout, true, []*explain.Explanation{a}, table)
}

// printAll prints explanations in any format. table prints the table.
func (e *explainFlags) printAll(stdout io.Writer, all []*explain.Explanation, table func(w io.Writer)) error {
	return e.printEach(stdout, false, all, table)
}

func (e *explainFlags) printEach(stdout io.Writer, single bool, all []*explain.Explanation, table func(w io.Writer)) error {
	out := bufio.NewWriter(stdout) // keeps the first error
	var p printer
	switch e.output {
	case "json":
		p = &jsonPrinter{w: out, single: single}
	case "yaml":
		p = &yamlPrinter{w: out, single: single}
	case "table", "wide":
		table(out)
	default:
		p = &rowPrinter{printing: &e.printing, w: out, table: explainedPods()}
	}
	if p != nil {
		for _, a := range all {
			if err := p.print(a); err != nil {
				return fmt.Errorf("print: %w", err)
			}
		}
		if err := p.end(); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// isForbidden reports whether a right is missing.
func isForbidden(err error) bool { return apierrors.IsForbidden(err) }
