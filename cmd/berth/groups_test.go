package main

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/answers/advice"
	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

var updateScreens = flag.Bool("update-screens", false, "write what commands print to testdata, to be reviewed, instead of comparing it")

const (
	gangs  = "../../examples/gangs.yaml"
	gateOn = "--feature-gates=GenericWorkload=true"
)

// gangFile returns a node, a PodGroup with this name and minCount, and more documents.
func gangFile(group, minCount string, more ...string) string {
	return "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}, status: {allocatable: {cpu: '4', memory: 8Gi, pods: '9'}}}\n---\n" +
		"{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: " + group + "}, spec: {schedulingPolicy: {gang: {minCount: " + minCount + "}}}}\n" + strings.Join(more, "")
}

// member is a pod of group g.
func member(name, cpu, spec string) string {
	return "---\n{apiVersion: v1, kind: Pod, metadata: {name: " + name + "}, spec: {schedulingGroup: {podGroupName: g}, " + spec +
		"containers: [{name: m, image: x, resources: {requests: {cpu: '" + cpu + "'}}}]}}\n"
}

// TestGroupScreens compares whole screens with testdata/NAME.txt, trailing spaces apart.
func TestGroupScreens(t *testing.T) {
	var crowd []string
	for i := range 25 {
		crowd = append(crowd, member("p"+string(rune('a'+i)), "1", ""))
	}
	const leader = "---\n{apiVersion: v1, kind: Pod, metadata: {name: leader}, spec: {schedulingGroup: {podGroupName: g}, containers: [{name: m, image: x, resources: {requests: {cpu: '1', memory: 9Gi}}}]}}\n"
	tree := "{apiVersion: scheduling.k8s.io/v1alpha3, kind: CompositePodGroup, metadata: {name: root}, spec: {schedulingPolicy: {gang: {minGroupCount: 2}}}}\n---\n" +
		strings.ReplaceAll(gangFile("g", "2", member("a", "1", ""), member("b", "1", "")), "spec: {schedulingPolicy", "spec: {parentCompositePodGroupName: root, schedulingPolicy") +
		"---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: h}, spec: {parentCompositePodGroupName: root, schedulingPolicy: {gang: {minCount: 2}}}}\n" +
		strings.ReplaceAll(member("c", "2", "")+member("d", "2", ""), "podGroupName: g", "podGroupName: h")
	const wide = "---\n{apiVersion: v1, kind: Node, metadata: {name: wide}, status: {allocatable: {cpu: '500', memory: 8Gi, pods: '500'}}}\n"
	for name, row := range map[string]struct {
		cluster string // the example if it is empty
		args    []string
	}{
		"group-no-room":        {"", []string{"--pod-group", "ml/train"}},
		"group-starts":         {"", []string{"--pod-group", "ml/index"}},
		"group-too-few":        {"", []string{"--pod-group", "ml/evaluate"}},
		"group-of-pod":         {"", []string{"--pod", "ml/train-2", "-o", "wide"}},
		"group-of-pod-short":   {"", []string{"--pod", "ml/train-2"}},
		"group-held":           {gangFile("g", "2", member("a", "1", ""), member("b", "9", "schedulingGates: [{name: wait}], ")), []string{"--pod-group", "default/g"}},
		"group-two-held":       {gangFile("g", "2", member("a", "1", "schedulingGates: [{name: wait}], "), member("b", "1", "schedulingGates: [{name: wait}], ")), []string{"--pod-group", "default/g"}},
		"group-more-start":     {gangFile("g", "1", member("a", "1", "nodeName: n1, "), member("b", "2", "")), []string{"--pod-group", "default/g"}},
		"group-does-not-exist": {gangFile("h", "2", member("a", "1", "")), []string{"--pod", "default/a", "-o", "wide"}},
		"group-priorities":     {gangFile("g", "2", member("a", "1", ""), member("b", "1", "priority: 5, ")), []string{"--pod-group", "default/g"}},
		"group-runs":           {gangFile("g", "1", member("a", "1", "nodeName: n1, ")), []string{"--pod-group", "default/g"}},
		"group-extra":          {gangFile("g", "1", member("a", "4", "nodeName: n1, "), member("b", "2", "")), []string{"--pod-group", "default/g"}},
		"group-large":          {gangFile("g", "25", crowd...), []string{"--pod-group", "default/g"}},
		"group-room":           {gangFile("g", "2", member("a", "1", ""), member("b", "1", ""), wide), []string{"--pod-group", "default/g"}},
		"group-leader":         {gangFile("g", "3", member("a", "1", ""), member("b", "1", ""), leader), []string{"--pod-group", "default/g"}},
		"group-leader-short":   {gangFile("g", "3", member("a", "1", ""), member("b", "1", ""), leader), []string{"--pod", "default/a"}},
		"group-tree":           {tree, []string{"--pod-group", "default/g", "--feature-gates=TopologyAwareWorkloadScheduling=true", "--feature-gates=CompositePodGroup=true"}},
		"group-cut":            {gangFile("g", "30000", member("a", "1", "")), []string{"--pod-group", "default/g"}},
	} {
		t.Run(name, func(t *testing.T) {
			var code int
			var out, stderr string
			if row.cluster == "" {
				text, err := os.ReadFile(gangs)
				if err != nil {
					t.Fatal(err)
				}
				row.cluster = string(text)
			}
			code, out, stderr = explained(t, row.cluster, append(row.args, gateOn)...)
			if code != 0 {
				t.Fatalf("exit code %d\n%s", code, stderr)
			}
			checkScreen(t, name, out)
		})
	}
}

// TestExplainGroupAsData checks JSON and YAML: a group by name, a pod with its group, and
// a list where one member has it.
func TestExplainGroupAsData(t *testing.T) {
	text, err := os.ReadFile(gangs)
	if err != nil {
		t.Fatal(err)
	}
	var group, fromYAML explain.Group
	_, out, stderr := explained(t, string(text), gateOn, "--pod-group", "ml/train", "-o", "json")
	if err := json.Unmarshal([]byte(out), &group); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	const quorum = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, pod group preemption: No preemption victims found for incoming preemptor"
	want := explain.Group{
		Name: "ml/train", Policy: "gang", MinCount: 3, Waiting: 3, Fit: 2,
		Members: []explain.Member{{Pod: "ml/train-0", Node: "big-1"}, {Pod: "ml/train-1", Node: "big-2"},
			{Pod: "ml/train-2", Message: "0/4 nodes are available: 2 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector."}},
		Condition:  &explain.GroupCondition{Type: "PodGroupInitiallyScheduled", Status: "False", Reason: "Unschedulable", Message: quorum},
		Blocker:    &explain.Blocker{Pod: "ml/train-2", Alike: 1, Objections: []explain.Objection{{Plugin: "NodeAffinity", Nodes: 2}, {Plugin: "NodeResourcesFit", Nodes: 2}}},
		WouldStart: []explain.Help{{MinCount: 2}, {Nodes: 1, Like: "big-1"}},
	}
	without := group // the demands of single members are on the screens
	without.Blocker, without.WouldStart = &explain.Blocker{}, nil
	*without.Blocker = *group.Blocker
	without.Blocker.Demands = nil
	for _, h := range group.WouldStart {
		if h.Change == nil {
			without.WouldStart = append(without.WouldStart, h)
		}
	}
	if diff := cmp.Diff(want, without, cmpopts.IgnoreUnexported(advice.Change{})); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
	_, out, _ = explained(t, string(text), gateOn, "--pod-group", "ml/train", "-o", "yaml")
	if err := yaml.Unmarshal([]byte(out), &fromYAML); err != nil || !cmp.Equal(fromYAML, group, cmpopts.IgnoreUnexported(advice.Change{})) {
		t.Errorf("YAML, %v\n%s", err, out)
	}
	type pod struct {
		Pod, Message, PostFilterMessage, Gated, PodGroup string
		Group                                            *explain.Group
	}
	var one pod
	_, out, _ = explained(t, string(text), gateOn, "--pod", "ml/train-2", "-o", "json")
	if err := json.Unmarshal([]byte(out), &one); err != nil || one.PodGroup != "ml/train" || !cmp.Equal(one.Group, &group, cmpopts.IgnoreUnexported(advice.Change{})) {
		t.Errorf("of a pod, %v\n%s", err, out)
	}
	var all []pod
	_, out, _ = explained(t, string(text), gateOn, "-o", "json")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all {
		line := p.Pod + " " + p.PodGroup + " " + p.Gated
		if p.Group != nil {
			line += " with " + p.Group.Name
		}
		got = append(got, line)
	}
	if diff := cmp.Diff([]string{
		"ml/evaluate-0 ml/evaluate its pod group waits: waiting for minCount pods from a gang to appear in scheduling queue with ml/evaluate",
		"ml/index-0 ml/index  with ml/index", "ml/index-1 ml/index ", "ml/train-0 ml/train  with ml/train", "ml/train-1 ml/train ", "ml/train-2 ml/train ",
	}, got); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
	// A member does not preempt alone.
	victim := "---\n{apiVersion: v1, kind: Pod, metadata: {name: low}, spec: {nodeName: n1, priority: -5, containers: [{name: m, image: x, resources: {requests: {cpu: '4'}}}]}}\n"
	cluster := gangFile("g", "1", victim, member("a", "2", ""))
	for gate, text := range map[string]string{gateOn: "", "--seedless": "preemption: found a potential placement"} {
		args := []string{"--pod", "default/a", "-o", "json"}
		if text == "" {
			args = append(args, gate)
		}
		_, out, _ = explained(t, cluster, args...)
		var p pod
		if err := json.Unmarshal([]byte(out), &p); err != nil || p.Message == "" || !strings.HasPrefix(p.PostFilterMessage, text) || text == "" && p.PostFilterMessage != "" {
			t.Errorf("%s: %v, %+v", gate, err, p)
		}
	}
}

// TestGroupMistakes expects exit code 2 and an error that names the correct form.
func TestGroupMistakes(t *testing.T) {
	cluster := gangFile("g", "1", member("a", "1", ""))
	for _, row := range []struct {
		want string
		args []string
	}{
		{`--pod-group "default/h": PodGroup not found in the snapshot, and no pod names it; did you mean default/g?`, []string{gateOn, "--pod-group", "default/h"}},
		{`--pod-group "a/b/c": must be NAMESPACE/NAME (1 pod groups, no similar name)`, []string{gateOn, "--pod-group", "a/b/c"}},
		{`--pod-group "g": must be NAMESPACE/NAME; did you mean default/g?`, []string{gateOn, "--pod-group", "g"}},
		{`--pod-group "default/g": needs a feature gate: add --feature-gates GenericWorkload=true`, []string{"--pod-group", "default/g"}},
		{`--pod and --pod-group are both given`, []string{gateOn, "--pod-group", "default/g", "--pod", "default/a"}},
		{`--feature-gates: unrecognized feature gate: GenericWork`, []string{"--feature-gates", "GenericWork=true"}},
		{`CompositePodGroup is enabled, but depends on features that are disabled`, []string{"--feature-gates", "CompositePodGroup=true"}},
		{`invalid argument "GenericWorkload=on"`, []string{"--feature-gates", "GenericWorkload=on"}},
	} {
		code, out, stderr := explained(t, cluster, row.args...)
		if code != 2 || out != "" || !strings.Contains(stderr, row.want) {
			t.Errorf("%q: exit code %d, output %q, error\n%s\nwant\n%s", row.args, code, out, stderr, row.want)
		}
	}
}

// TestSimulateGroups checks groups that are not tried. It also compares the example's
// outputs with both names of the gate. TestShownOutput compares the example's output with
// its page.
func TestSimulateGroups(t *testing.T) {
	_, want, _ := simulated(t, "", "-f", gangs, "--feature-gates", "GenericWorkload=true")
	code, out, stderr := simulated(t, "", "-f", gangs, "--feature-gates", "kube:GenericWorkload=true")
	if diff := cmp.Diff(want, out); diff != "" || code != 0 {
		t.Errorf("exit code %d, (- want, + got)\n%s\n%s", code, diff, stderr)
	}
	cluster := gangFile("g", "2", member("a", "1", ""), member("b", "1", "schedulingGates: [{name: wait}], "),
		"---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: Workload, metadata: {name: w}, spec: {podGroupTemplates: []}}\n",
		"---\n{apiVersion: v1, kind: Pod, metadata: {name: lost}, spec: {schedulingGroup: {podGroupName: h}, containers: [{name: m, image: x}]}}\n",
		"---\n{apiVersion: v1, kind: Pod, metadata: {name: wrong}, spec: {priority: 3, schedulingGroup: {podGroupName: i}, containers: [{name: m, image: x}]}}\n",
		"---\n{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: i}, spec: {schedulingPolicy: {basic: {}}}}\n")
	code, out, stderr = simulated(t, cluster, "-f", "-", gateOn, "-o", "json")
	var result simulate.Result
	if err := json.Unmarshal([]byte(out), &result); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s", code, err, stderr)
	}
	if !strings.Contains(stderr, "ignored objects that scheduling does not read: 1 Workload (scheduling.k8s.io/v1beta1)") {
		t.Errorf("notes\n%s", stderr)
	}
	const held = "member b is held back: waiting for scheduling gates: [wait]"
	const priorities = "all pods in a single pod group should have the same priority as the pod group's priority, got 3 and 0"
	if diff := cmp.Diff([]simulate.GroupResult{
		{Namespace: "default", PodGroup: "g", Status: simulate.Gated, MinCount: 2, Members: 2, Message: held},
		{Namespace: "default", PodGroup: "h", Status: simulate.Incomplete, Members: 1, Message: "PodGroup default/h does not exist"},
		{Namespace: "default", PodGroup: "i", Status: simulate.Failed, MinCount: 1, Members: 1, Message: priorities},
	}, result.Groups); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
	var pods []string
	for _, p := range result.Pods {
		pods = append(pods, p.Pod+": "+string(p.Status)+" "+p.Message)
	}
	if diff := cmp.Diff([]string{
		"a: Gated " + held, "b: Gated waiting for scheduling gates: [wait]", "lost: Incomplete PodGroup default/h does not exist", "wrong: Error " + priorities,
	}, pods); diff != "" {
		t.Errorf("(- want, + got)\n%s", diff)
	}
	// Without the gate, each pod is scheduled alone.
	_, out, stderr = simulated(t, cluster, "-f", "-", "-o", "json")
	result = simulate.Result{}
	if err := json.Unmarshal([]byte(out), &result); err != nil || result.Groups != nil || result.Summary.Placed != 3 {
		t.Errorf("without the gate: %v, %+v", err, result)
	}
	if !strings.Contains(stderr, "pending pods of pod groups are scheduled one by one: 4; to schedule each group as a whole, add --feature-gates GenericWorkload=true") {
		t.Errorf("notes\n%s", stderr)
	}
}
