package plugged

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// script is a sequence of steps that runs under each scheduler, with a profile of the
// same name.
type script struct {
	// nodes is the number of its own nodes, with 32 CPUs each.
	nodes int
	// sort is the QueueSort plugin, Ordered if empty. Scripts with the same one run in
	// parallel.
	sort string
	// differs is the known difference between the schedulers, as in docs/plugins.md;
	// empty for none.
	differs string
	// plugins is the profile's, without QueueSort; config is its pluginConfig.
	plugins, config string
	// objects creates the objects that a scheduler needs at its start.
	objects func(context.Context, *stage) error
	run     func(context.Context, *stage) error
}

// scripts are all scripts, by name.
var scripts = func() map[string]script {
	all := maps.Clone(ownScripts)
	maps.Copy(all, movedScripts)
	maps.Copy(all, probeScripts)
	maps.Copy(all, sortScripts)
	return all
}()

// ownScripts run the plugins of this package.
var ownScripts = map[string]script{
	"gang":     {nodes: 1, plugins: `{multiPoint: {enabled: [{name: Gang}]}}`, run: gangScript},
	"persist":  {nodes: 1, plugins: `{multiPoint: {enabled: [{name: Gang}]}}`, run: persistScript},
	"quota":    {nodes: 1, plugins: `{multiPoint: {enabled: [{name: Quota}]}}`, config: `[{name: Quota, args: {cpus: 4}}]`, run: quotaScript},
	"load":     {nodes: 3, plugins: `{score: {disabled: [{name: "*"}], enabled: [{name: Load}]}}`, run: loadScript},
	"zones":    {nodes: 2, plugins: `{multiPoint: {enabled: [{name: Zones}]}}`, objects: closedZones, run: zonesScript},
	"order":    {nodes: 1, plugins: `{multiPoint: {enabled: [{name: Record}]}}`, run: orderScript},
	"bind":     {nodes: 1, plugins: `{bind: {disabled: [{name: "*"}], enabled: [{name: SkippingBinder}, {name: CustomBinder}, {name: DefaultBinder}]}}`, run: bindScript},
	"gate":     {nodes: 1, plugins: `{multiPoint: {enabled: [{name: Gate}]}}`, run: gateScript},
	"nominate": {nodes: 2, plugins: `{postFilter: {disabled: [{name: "*"}], enabled: [{name: Nominator}]}}`, run: nominateScript},
	"record":   {nodes: 1, plugins: `{multiPoint: {enabled: [{name: Record}]}}`, run: recordScript},
}

// gangScript has a complete group, and one that times out and is completed afterwards.
func gangScript(ctx context.Context, s *stage) error {
	// A group's first member times out, and the others are rejected with it.
	timeouts := []string{"3s", "1m", "1m"}
	member := func(group string, i int) *v1.Pod {
		return s.pod(fmt.Sprintf("%s-%d", group, i), 1, labelled(GroupLabel, group), annotated(SizeAnnotation, "3"), annotated(TimeoutAnnotation, timeouts[i]))
	}
	if err := s.create(ctx, member("complete", 0), member("complete", 1), member("complete", 2)); err != nil {
		return err
	}
	if err := s.bound(ctx, "complete-0", "complete-1", "complete-2"); err != nil {
		return err
	}
	for i := range 2 {
		if err := s.create(ctx, member("late", i)); err != nil {
			return err
		}
		pod, err := s.until(ctx, fmt.Sprintf("late-%d", i), "waiting at Permit", func(p *v1.Pod) bool { return p.Status.NominatedNodeName != "" })
		if err != nil {
			return err
		}
		s.note("late-%d waits at Permit for %s, %s", i, pod.Status.NominatedNodeName, scheduled(pod))
	}
	if err := s.pending(ctx, "late-0", "timeout"); err != nil {
		return err
	}
	if err := s.pending(ctx, "late-1", "the group is incomplete"); err != nil {
		return err
	}
	if err := s.create(ctx, member("late", 2)); err != nil {
		return err
	}
	return s.bound(ctx, "late-0", "late-1", "late-2")
}

// persistScript has a group whose waiting members activate each other, so a rejected
// group is retried.
func persistScript(ctx context.Context, s *stage) error {
	waits := func(p *v1.Pod) bool { return p.Status.NominatedNodeName != "" }
	for i, timeout := range []string{"3s", "1m"} {
		name := fmt.Sprintf("pod-%d", i)
		err := s.create(ctx, s.pod(name, 1, labelled(GroupLabel, "all"), annotated(SizeAnnotation, "3"), annotated(TimeoutAnnotation, timeout), annotated(PersistAnnotation, "yes")))
		if err != nil {
			return err
		}
		if _, err := s.until(ctx, name, "waiting at Permit", waits); err != nil {
			return err
		}
	}
	for i, why := range []string{"timeout", "the group is incomplete"} {
		pod, err := s.until(ctx, fmt.Sprintf("pod-%d", i), "given up, and waiting at Permit again", func(p *v1.Pod) bool {
			return strings.Contains(scheduled(p), why) && waits(p)
		})
		if err != nil {
			return err
		}
		s.note("pod-%d waits again for %s, %s", i, pod.Status.NominatedNodeName, scheduled(pod))
	}
	if err := s.create(ctx, s.pod("pod-2", 1, labelled(GroupLabel, "all"), annotated(SizeAnnotation, "3"), annotated(TimeoutAnnotation, "1m"))); err != nil {
		return err
	}
	return s.bound(ctx, "pod-0", "pod-1", "pod-2")
}

// quotaScript has a pod above its namespace's quota, and one of higher priority that
// evicts others until its namespace has room.
func quotaScript(ctx context.Context, s *stage) error {
	class := func(name string) func(*v1.Pod) { return func(p *v1.Pod) { p.Spec.PriorityClassName = name } }
	for i := range 4 {
		name := fmt.Sprintf("low-%d", i)
		if err := s.create(ctx, s.pod(name, 1, class(fmt.Sprintf("plugged-%d", 10+i)))); err != nil {
			return err
		}
		if err := s.bound(ctx, name); err != nil {
			return err
		}
	}
	if err := s.create(ctx, s.pod("extra", 1, class("plugged-10"))); err != nil {
		return err
	}
	if err := s.pending(ctx, "extra", "over its quota"); err != nil {
		return err
	}
	if err := s.remove(ctx, "extra"); err != nil {
		return err
	}
	// Two of the four must go, those of lower priority.
	if err := s.create(ctx, s.pod("urgent", 2, class("plugged-20"))); err != nil {
		return err
	}
	if err := s.bound(ctx, "urgent"); err != nil {
		return err
	}
	if err := s.preempts(ctx, "urgent", "preempting 2 victims"); err != nil {
		return err
	}
	if err := s.pods(ctx); err != nil {
		return err
	}
	return s.preempted(ctx, "low-0", "low-1")
}

// identifier matches a UID, which differs between two pods of the same name.
var identifier = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// preempted waits for the victims' events and notes them.
func (s *stage) preempted(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := poll(ctx, func() (bool, error) {
			events, err := s.clients.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			for _, e := range events.Items {
				if e.Regarding.Name == name && e.Reason == "Preempted" {
					related := "nothing"
					if e.Related != nil {
						related = e.Related.Kind + " " + e.Related.Name
					}
					s.note("%s was evicted, %s %s, in relation to %s, %q", name, e.Type, e.Action, related, identifier.ReplaceAllString(e.Note, "UID"))
					return true, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("wait for the event Preempted of pod %s: %w", name, err)
		}
	}
	return nil
}

// loadScript changes the load between two pods.
func loadScript(ctx context.Context, s *stage) error {
	maps := s.clients.CoreV1().ConfigMaps(s.namespace)
	for i, percent := range [][]string{{"90", "10", "50"}, {"90", "95", "50"}, {"5", "95", "50"}} {
		load := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "load"}, Data: map[string]string{}}
		for n, node := range s.nodes {
			load.Data[node] = percent[n]
		}
		var err error
		if i == 0 {
			_, err = maps.Create(ctx, load, metav1.CreateOptions{})
		} else {
			_, err = maps.Update(ctx, load, metav1.UpdateOptions{})
		}
		if err != nil {
			return err
		}
		err = poll(ctx, func() (bool, error) {
			now, err := maps.Get(ctx, "load", metav1.GetOptions{})
			return err == nil && now.Annotations[LoadSeenAnnotation] == fmt.Sprint(load.Data), err
		})
		if err != nil {
			return fmt.Errorf("wait until the plugin has seen the load: %w", err)
		}
		name := fmt.Sprintf("pod-%d", i)
		if err := s.create(ctx, s.pod(name, 1)); err != nil {
			return err
		}
		if err := s.bound(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// zone writes the free amount of a node's zones.
func (s *stage) zone(ctx context.Context, node string, free int64) error {
	zones := s.dynamic.Resource(ZonesResource)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": ZonesResource.GroupVersion().String(), "kind": "NodeZone", "metadata": map[string]any{"name": node}, "spec": map[string]any{"free": free},
	}}
	_, err := zones.Apply(ctx, node, object, metav1.ApplyOptions{FieldManager: "plugged", Force: true})
	return err
}

func closedZones(ctx context.Context, s *stage) error {
	for _, node := range s.nodes {
		if err := s.zone(ctx, node, 0); err != nil {
			return err
		}
	}
	return nil
}

// zonesScript changes custom resources until a pod fits.
func zonesScript(ctx context.Context, s *stage) error {
	if err := s.create(ctx, s.pod("small", 1, annotated(ZonesAnnotation, "1")), s.pod("large", 1, annotated(ZonesAnnotation, "4"))); err != nil {
		return err
	}
	for _, name := range []string{"small", "large"} {
		if err := s.pending(ctx, name, "too little room in a zone"); err != nil {
			return err
		}
	}
	if err := s.zone(ctx, s.nodes[1], 2); err != nil {
		return err
	}
	if err := s.bound(ctx, "small"); err != nil {
		return err
	}
	if err := s.pending(ctx, "large", "too little room in a zone"); err != nil {
		return err
	}
	if err := s.zone(ctx, s.nodes[0], 4); err != nil {
		return err
	}
	return s.bound(ctx, "large")
}

// orderScript has five pods wait for a node with room for three, and admits all at once.
func orderScript(ctx context.Context, s *stage) error {
	const open = "plugged.example.com/order"
	ranks := []int{4, 2, 5, 1, 3}
	var names []string
	for i, rank := range ranks {
		name := fmt.Sprintf("pod-%d", i)
		names = append(names, name)
		pod := s.pod(name, 10, annotated(RankAnnotation, strconv.Itoa(rank)))
		pod.Spec.NodeSelector[open] = s.namespace
		if err := s.create(ctx, pod); err != nil {
			return err
		}
	}
	if err := s.parked(ctx, names...); err != nil {
		return err
	}
	if err := s.labelNode(ctx, s.nodes[0], open, s.namespace); err != nil {
		return err
	}
	if err := s.bound(ctx, "pod-1", "pod-3", "pod-4"); err != nil {
		return err
	}
	for _, name := range []string{"pod-0", "pod-2"} {
		if err := s.pending(ctx, name, "Insufficient cpu"); err != nil {
			return err
		}
	}
	return nil
}

// bindScript has a pod for each binder, and one whose first binding fails.
func bindScript(ctx context.Context, s *stage) error {
	err := s.create(ctx, s.pod("by-default", 1), s.pod("by-custom", 1, annotated(BindAnnotation, "custom")), s.pod("in-two-attempts", 1, annotated(BindAnnotation, "fail-once")))
	if err != nil {
		return err
	}
	if err := s.bound(ctx, "by-default", "by-custom", "in-two-attempts"); err != nil {
		return err
	}
	return s.failedScheduling(ctx, "in-two-attempts", "fail once")
}

// gateScript has two held pods. A change of the first admits it, and a change of a node
// admits the other.
func gateScript(ctx context.Context, s *stage) error {
	// A free pod comes after the held ones: when it runs, they are known to be held.
	err := s.create(ctx, s.pod("first", 1), s.pod("second", 1), s.pod("free", 1, annotated(OpenAnnotation, "yes")))
	if err != nil {
		return err
	}
	if err := s.bound(ctx, "free"); err != nil {
		return err
	}
	for _, name := range []string{"first", "second"} {
		pod, err := s.clients.CoreV1().Pods(s.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		s.note("%s is held on %q, %s", name, pod.Spec.NodeName, scheduled(pod))
	}
	first, err := s.clients.CoreV1().Pods(s.namespace).Get(ctx, "first", metav1.GetOptions{})
	if err != nil {
		return err
	}
	first.Annotations = map[string]string{OpenAnnotation: "yes"}
	if _, err := s.clients.CoreV1().Pods(s.namespace).Update(ctx, first, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if err := s.bound(ctx, "first"); err != nil {
		return err
	}
	if err := s.pods(ctx); err != nil {
		return err
	}
	if err := s.labelNode(ctx, s.nodes[0], OpenLabel, s.namespace); err != nil {
		return err
	}
	return s.bound(ctx, "second")
}

// nominateScript has two full nodes, one with a possible victim.
func nominateScript(ctx context.Context, s *stage) error {
	err := s.create(ctx, s.pod("stays", 30, at(s.nodes[0])), s.pod("goes", 30, at(s.nodes[1]), labelled(VictimLabel, "yes")))
	if err != nil {
		return err
	}
	if err := s.bound(ctx, "stays", "goes"); err != nil {
		return err
	}
	if err := s.create(ctx, s.pod("in-vain", 20, annotated(WantsAnnotation, s.nodes[0]))); err != nil {
		return err
	}
	if err := s.pending(ctx, "in-vain", "Insufficient cpu"); err != nil {
		return err
	}
	if err := s.remove(ctx, "in-vain"); err != nil {
		return err
	}
	if err := s.create(ctx, s.pod("nominated", 20, annotated(WantsAnnotation, s.nodes[1]))); err != nil {
		return err
	}
	if err := s.bound(ctx, "nominated"); err != nil {
		return err
	}
	if err := s.failedScheduling(ctx, "nominated", "Insufficient cpu"); err != nil {
		return err
	}
	return s.pods(ctx)
}

// recordScript has a pod whose PreBind fails the first time.
func recordScript(ctx context.Context, s *stage) error {
	if err := s.create(ctx, s.pod("smooth", 1)); err != nil {
		return err
	}
	if err := s.bound(ctx, "smooth"); err != nil {
		return err
	}
	if err := s.create(ctx, s.pod("rough", 1, annotated(FailAnnotation, "yes"))); err != nil {
		return err
	}
	if err := s.bound(ctx, "rough"); err != nil {
		return err
	}
	if err := s.failedScheduling(ctx, "rough", "fail once"); err != nil {
		return err
	}
	for _, name := range []string{"smooth", "rough"} {
		err := poll(ctx, func() (bool, error) {
			maps, err := s.clients.CoreV1().ConfigMaps(s.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			for _, m := range maps.Items {
				if m.Name == name {
					s.note("PostBind recorded %s on %s", name, m.Data["node"])
					return true, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("wait until PostBind has recorded pod %s: %w", name, err)
		}
	}
	return nil
}
