package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clients "k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/internal/answers/explain"
)

// askFirst reads the named pod of a live cluster and, with --scheduler, its history,
// before anything is listed: both need rights in the pod's namespace only. It returns nil
// if the pod cannot be read alone; the lists then tell what is wrong.
func (e *explainFlags) askFirst(ctx context.Context, stderr io.Writer, bar *progress) (*v1.Pod, error) {
	namespace, name, ok := strings.Cut(e.pod, "/")
	if !ok || len(e.files) > 0 || len(e.since) > 0 || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, nil
	}
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
	fmt.Fprintf(stderr, "Note: without these rights, the answer comes from %s alone, and has no suggestions", from)
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
	out := bufio.NewWriter(stdout) // keeps the first error
	var p printer
	switch e.output {
	case "json":
		p = &jsonPrinter{w: out, single: true}
	case "yaml":
		p = &yamlPrinter{w: out, single: true}
	case "table", "wide":
		table(out)
	default:
		p = &rowPrinter{printing: &e.printing, w: out, table: explainedPods()}
	}
	if p != nil {
		if err := p.print(a); err != nil {
			return fmt.Errorf("print: %w", err)
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
