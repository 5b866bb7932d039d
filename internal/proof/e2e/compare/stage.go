package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// The labels of pods that are created and removed.
const (
	measuredLabel = "compare.example.com/measured"
	freshLabel    = "compare.example.com/fresh"
	probeLabel    = "compare.example.com/probe"
)

// stage is a cluster that holds a site.
type stage struct {
	cluster  *rig.Cluster
	client   kubernetes.Interface
	metadata metadata.Interface
	folder   string
	// calmLimit is the longest wait for the cluster to become idle.
	calmLimit time.Duration
	nodes     []string // names
	standing  int      // number of pods that were created and stay
}

// openStage starts a cluster and builds the site.
func (c *comparison) openStage(ctx context.Context, site *scene.Site) (*stage, error) {
	folder := filepath.Join(c.folder, fmt.Sprint("cluster-", time.Now().UnixNano()))
	args := []string{"--nodes", "0", "--with-kwok=false", "--data-dir", folder}
	if !site.Controllers {
		args = append(args, "--without-controllers")
	}
	args = append(args, clusterFlags(site)...)
	cluster, err := rig.StartCluster(ctx, c.bin, c.log, args...)
	if err != nil {
		return nil, err
	}
	st := &stage{cluster: cluster, folder: folder, calmLimit: c.calmLimit}
	if err := st.build(ctx, site); err != nil {
		return nil, errors.Join(err, st.close())
	}
	return st, nil
}

// close stops the cluster and removes its data, because the data of many clusters would
// fill the disk.
func (st *stage) close() error {
	return errors.Join(st.cluster.Stop(), os.RemoveAll(st.folder))
}

func (st *stage) build(ctx context.Context, site *scene.Site) error {
	config, err := rig.Config(st.cluster.Kubeconfig)
	if err != nil {
		return err
	}
	// with every answer, that the version of pod groups will be deprecated
	config.WarningHandler = rest.NoWarnings{}
	if st.client, err = kubernetes.NewForConfig(config); err != nil {
		return err
	}
	if st.metadata, err = metadata.NewForConfig(config); err != nil {
		return err
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: scene.HighPriority}, Value: 10}
	if _, err := st.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create priority class: %w", err)
	}
	err = rig.InParallel(len(site.Namespaces), func(i int) error {
		_, err := st.client.CoreV1().Namespaces().Create(ctx, site.Namespaces[i], metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create namespaces: %w", err)
	}
	if site.Controllers {
		if err := st.awaitAccounts(ctx, site.Namespaces); err != nil {
			return err
		}
	}
	err = rig.InParallel(len(site.Services), func(i int) error {
		s := site.Services[i]
		_, err := st.client.CoreV1().Services(s.Namespace).Create(ctx, s, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create services: %w", err)
	}
	st.nodes = make([]string, site.Nodes)
	err = rig.InParallel(site.Nodes, func(i int) error {
		node := site.Node(i)
		st.nodes[i] = node.Name
		_, err := st.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create nodes: %w", err)
	}
	if err := st.buildStorage(ctx, site); err != nil {
		return err
	}
	return st.buildDevices(ctx, site)
}

// furnish creates the pods that a scene starts with, except those of earlier scenes. A
// scene of the same kind of pods with more running pods begins with the same pods.
func (st *stage) furnish(ctx context.Context, c *comparison, s *scene.Scene) error {
	want := 0
	for i := range s.Standing {
		want += s.Standing[i].Count
	}
	if want > st.standing {
		c.step("%s: creating %d pods that are there before", s.Name, want-st.standing)
	}
	skip := st.standing
	for i := range s.Standing {
		group := &s.Standing[i]
		if skip >= group.Count {
			skip -= group.Count
			continue
		}
		if err := st.make(ctx, group, skip, ""); err != nil {
			return fmt.Errorf("create pods that are there before: %w", err)
		}
		skip = 0
	}
	st.standing = max(st.standing, want)
	return nil
}

// make creates pods of a kind, from the given index on, with a label. Existing pods are
// kept.
func (st *stage) make(ctx context.Context, group *scene.Pods, from int, label string) error {
	return rig.InParallel(group.Count-from, func(i int) error {
		pod := group.Pod(from + i)
		mark(pod, label)
		if err := st.makeDisk(ctx, group, from+i); err != nil {
			return err
		}
		if group.Node != nil {
			pod.Spec.NodeName = st.nodes[group.Node(from+i)]
		}
		_, err := st.client.CoreV1().Pods(group.NamespaceOf(from+i)).Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// mark adds a label to a pod. It copies the map, because all pods of the kind may share
// it.
func mark(pod *v1.Pod, label string) {
	if label == "" {
		return
	}
	labels := map[string]string{label: ""}
	for key, value := range pod.Labels {
		labels[key] = value
	}
	pod.Labels = labels
}

// refresh creates the fresh pods with a node, or those without.
func (st *stage) refresh(ctx context.Context, s *scene.Scene, onNodes bool) error {
	for i := range s.Fresh {
		group := &s.Fresh[i]
		if (group.Node != nil) != onNodes {
			continue
		}
		label := freshLabel
		if onNodes {
			label = ""
		}
		if err := st.make(ctx, group, 0, label); err != nil {
			return fmt.Errorf("create pods for the round: %w", err)
		}
	}
	return nil
}

// clear removes the objects of a round, so that each round starts from the same cluster.
func (st *stage) clear(ctx context.Context, s *scene.Scene) error {
	for _, churn := range s.Churn {
		if err := churn.Undo(ctx, st.client); err != nil {
			return fmt.Errorf("undo what went on: %w", err)
		}
	}
	namespaces := map[string]bool{s.Measured.Namespace: true, s.Measured.Scope(): true} // the probe is in the first
	for i := range s.Fresh {
		if group := &s.Fresh[i]; group.Node == nil {
			if err := st.release(ctx, group); err != nil {
				return err
			}
			namespaces[group.Scope()] = true
		}
	}
	for _, label := range []string{measuredLabel, freshLabel, probeLabel} {
		for namespace := range namespaces {
			if err := rig.DeletePodsWith(ctx, st.client, namespace, label); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(st.removeGroups(ctx, s), st.removeDisks(ctx, &s.Measured)); err != nil {
		return err
	}
	if err := st.awaitFreeDevices(ctx, s); err != nil {
		return err
	}
	return st.deleteEvents(ctx)
}

// release removes the finalizers of pods of a kind.
func (st *stage) release(ctx context.Context, group *scene.Pods) error {
	if len(group.Pod(0).Finalizers) == 0 {
		return nil
	}
	err := rig.InParallel(group.Count, func(i int) error {
		_, err := st.client.CoreV1().Pods(group.NamespaceOf(i)).Patch(ctx, group.Pod(i).Name, types.MergePatchType,
			[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("take finalizers off: %w", err)
	}
	return nil
}

// deleteEvents deletes all events, many at a time, because a single request would exceed
// its time limit.
func (st *stage) deleteEvents(ctx context.Context) error {
	events := st.metadata.Resource(eventsv1.SchemeGroupVersion.WithResource("events"))
	list, err := events.List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list events to delete: %w", err)
	}
	err = rig.InParallel(len(list.Items), func(i int) error {
		err := events.Namespace(list.Items[i].Namespace).Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete events: %w", err)
	}
	return nil
}

// The load below which a cluster counts as idle. On a shared machine it may not get there
// within the limit; the round begins anyway.
const (
	calmShare = 0.15 // of one CPU
	calmEvery = 500 * time.Millisecond
)

// sweep makes the API server collect its garbage. One collection takes over a second of
// CPU every few seconds under load. Without sweep, the garbage of one contender would be
// collected in the turn of the next.
func (st *stage) sweep(ctx context.Context) error {
	err := st.client.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("gc", "1").Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("have the API server collect its garbage: %w", err)
	}
	return nil
}

// rest makes turns begin alike: idle, as far as possible, and without garbage in the API
// server.
func (st *stage) rest(ctx context.Context, contender *rig.Process) error {
	if err := st.calm(ctx, contender); err != nil {
		return err
	}
	if err := st.sweep(ctx); err != nil {
		return err
	}
	return st.calm(ctx, contender)
}

// calm waits until the cluster, and the contender if any, are nearly idle.
func (st *stage) calm(ctx context.Context, contender *rig.Process) error {
	deadline := time.Now().Add(st.calmLimit)
	tick := time.NewTicker(calmEvery)
	defer tick.Stop()
	began := time.Now()
	before, err := st.cost(contender)
	for err == nil && time.Now().Before(deadline) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now := time.Now()
		var cost time.Duration
		if cost, err = st.cost(contender); cost-before < time.Duration(calmShare*float64(now.Sub(began))) {
			return err
		}
		before, began = cost, now
	}
	return err
}

// cost returns the CPU time of the cluster and the contender so far.
func (st *stage) cost(contender *rig.Process) (time.Duration, error) {
	usage, err := st.cluster.Usage()
	if err != nil || contender == nil {
		return usage.CPU, err
	}
	own, err := contender.Usage()
	return usage.CPU + own.CPU, err
}

// scheduledEvents counts the pods with a Scheduled event.
func (st *stage) scheduledEvents(ctx context.Context, namespace string) (int, error) {
	list, err := st.client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=Scheduled"})
	if err != nil {
		return 0, fmt.Errorf("list events: %w", err)
	}
	pods := map[string]bool{}
	for i := range list.Items {
		// A probe's event may be in the list; no measured pod has its name.
		if name := list.Items[i].Regarding.Name; !strings.HasPrefix(name, probeName) {
			pods[name] = true
		}
	}
	return len(pods), nil
}

// countEvents counts events without listing them all.
func (st *stage) countEvents(ctx context.Context, namespace string) (int, error) {
	page, err := st.client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, fmt.Errorf("count events: %w", err)
	}
	n := len(page.Items)
	if page.RemainingItemCount != nil {
		n += int(*page.RemainingItemCount)
	}
	return n, nil
}
