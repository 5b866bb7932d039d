package oracle

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// The numbered rows come from design/rules/node.md, in the section of each plugin.

func TestNormalisation(t *testing.T) {
	tests := []struct {
		row     int
		raw     []int64
		reverse bool
		want    string
	}{
		{1, []int64{0, 0, 0}, true, "[100 100 100]"},
		{2, []int64{0, 0, 0}, false, "[0 0 0]"},
		{3, []int64{0, 1, 3}, true, "[100 67 0]"},
		{4, []int64{0, 1, 3}, false, "[0 33 100]"},
		{5, []int64{1, 2, 7}, false, "[14 28 100]"},
		{6, []int64{2, 2}, true, "[0 0]"},
		{7, []int64{3, 7, 10}, true, "[70 30 0]"},
		{8, []int64{0, -5}, false, "[0 -5]"},
	}
	for _, tt := range tests {
		s := byLargest(tt.raw, tt.reverse)
		if got := fmt.Sprint(s.normalised); got != tt.want {
			t.Errorf("row %d: got %s, want %s", tt.row, got, tt.want)
		}
		if err := s.check("P"); (err != nil) != (tt.row == 8) {
			t.Errorf("row %d: error %v", tt.row, err)
		}
	}
	want := `applying score defaultWeights on Score plugins: plugin "P" returns an invalid score -5, it should in the range of [0, 100] after normalizing`
	if got := byLargest(tests[7].raw, false).check("P").Error(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNodeName(t *testing.T) {
	small := newNode("n1", has("cpu=1"))
	n1, n2, n3 := newNode("n1"), newNode("n2"), newNode("n3")
	toN2 := require(fieldTerm("metadata.name In n2"))
	tests := []struct {
		row     int
		pod     *v1.Pod
		nodes   []*v1.Node
		best    string
		message string
	}{
		{1, pod(run("")), nodes(n1), "[n1]", ""},
		{2, pod(on("n1"), run("")), nodes(n1), "[n1]", ""},
		{3, pod(on("n1"), run("cpu=2")), nodes(small, n2, n3), "[]", "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeName]."},
		{4, pod(on("n9"), run("")), nodes(n1, n2), "[]", "0/2 nodes are available: 2 node(s) didn't satisfy plugin(s) [NodeName]."},
		{5, pod(on("n1"), run(""), toN2), nodes(n1, n2), "[]", "0/2 nodes are available: node(s) didn't satisfy plugin(s) [NodeAffinity NodeName] simultaneously."},
	}
	for _, tt := range tests {
		a := Judge(cluster(tt.nodes), tt.pod, DefaultProfile())
		if got := fmt.Sprint(a.Best); got != tt.best || a.Rejected != tt.message {
			t.Errorf("row %d: got %s %q, want %s %q", tt.row, got, a.Rejected, tt.best, tt.message)
		}
	}
	no := nodeNameFilter(newCycle(Cluster{}, pod(on("n1")), Profile{}), node{Node: n2})
	if no == nil || !no.Unresolvable || no.Reasons[0] != "node(s) didn't match the requested node name" {
		t.Errorf("row 6: got %v", no)
	}
}

func TestNodeUnschedulable(t *testing.T) {
	key := "node.kubernetes.io/unschedulable"
	reject := "UU node(s) were unschedulable"
	tests := []struct {
		row  int
		pod  *v1.Pod
		node *v1.Node
		want string
	}{
		{1, pod(), newNode("n", tainted(key+":NoSchedule")), "UU node(s) had untolerated taint(s)"},
		{2, pod(), newNode("n", cordoned), reject},
		{3, pod(tolerate(v1.Toleration{Key: key, Operator: "Exists"})), newNode("n", cordoned), "fits"},
		{4, pod(tolerate(v1.Toleration{Key: key, Operator: "Equal", Effect: "NoSchedule"})), newNode("n", cordoned), "fits"},
		{5, pod(tolerate(v1.Toleration{Key: key, Operator: "Exists", Effect: "NoExecute"})), newNode("n", cordoned), reject},
		{6, pod(tolerate(v1.Toleration{Operator: "Exists"})), newNode("n", cordoned), "fits"},
	}
	for _, tt := range tests {
		if got := verdict(Judge(cluster(nodes(tt.node)), tt.pod, DefaultProfile()).Nodes[0]); got != tt.want {
			t.Errorf("row %d: got %q, want %q", tt.row, got, tt.want)
		}
	}
}

func TestTaintTolerationFilter(t *testing.T) {
	reject := "UU node(s) had untolerated taint(s)"
	tests := []struct {
		row    string
		pod    *v1.Pod
		taints string
		want   string
	}{
		{"1", pod(), "a=b:NoSchedule", reject},
		{"2", pod(), "a=b:PreferNoSchedule", "fits"},
		{"3", pod(tolerate(v1.Toleration{Key: "a", Operator: "Equal", Value: "b", Effect: "NoSchedule"})), "a=b:NoSchedule a=b:NoExecute", reject},
		{"4", pod(tolerate(v1.Toleration{Key: "a", Operator: "Equal", Value: "b"})), "a=b:NoSchedule a=b:NoExecute", "fits"},
		{"5", pod(tolerate(v1.Toleration{Key: "a", Operator: "Exists"})), "a=zzz:NoExecute", "fits"},
		{"6a", pod(tolerate(v1.Toleration{Key: "a"})), "a=b:NoSchedule", reject},
		{"6b", pod(tolerate(v1.Toleration{Key: "a"})), "a:NoSchedule", "fits"},
		{"7", pod(tolerate(v1.Toleration{Key: "sla", Operator: "Gt", Value: "950"})), "sla=990:NoSchedule", reject},
	}
	for _, tt := range tests {
		n := newNode("n", tainted(tt.taints))
		if got := verdict(Judge(cluster(nodes(n)), tt.pod, DefaultProfile()).Nodes[0]); got != tt.want {
			t.Errorf("row %s: got %q, want %q", tt.row, got, tt.want)
		}
	}
}

func TestTaintTolerationScore(t *testing.T) {
	soft := func(keys ...string) nodePart {
		return tainted(strings.Join(append(keys, ""), ":PreferNoSchedule "))
	}
	tests := []struct {
		row             string
		pod             *v1.Pod
		nodes           []*v1.Node
		raw, normalised string
	}{
		{"9", pod(), nodes(newNode("n1"), newNode("n2", soft("a")), newNode("n3", soft("a", "b"))), "[0 1 2]", "[100 50 0]"},
		{"10", pod(tolerate(v1.Toleration{Key: "x", Operator: "Exists", Effect: "NoSchedule"})), nodes(newNode("n1", soft("x")), newNode("n2")), "[1 0]", "[0 100]"},
		{"11", pod(), nodes(newNode("n1", soft("a", "b", "c")), newNode("n2", soft("a", "b", "c"))), "[3 3]", "[0 0]"},
		{"none anywhere", pod(), nodes(newNode("n1"), newNode("n2")), "[0 0]", "[100 100]"},
	}
	for _, tt := range tests {
		raw, normalised := scored(Judge(cluster(tt.nodes), tt.pod, DefaultProfile()), "TaintToleration")
		if fmt.Sprint(raw) != tt.raw || fmt.Sprint(normalised) != tt.normalised {
			t.Errorf("row %s: got %v %v, want %s %s", tt.row, raw, normalised, tt.raw, tt.normalised)
		}
	}
}

func TestNodeAffinityFilter(t *testing.T) {
	reject := "UU node(s) didn't match Pod's node affinity/selector"
	tests := []struct {
		row    string
		part   podPart
		labels string
		want   string
	}{
		{"1", nodeSelector("disk=ssd"), "disk=hdd", reject},
		{"2", run(""), "disk=hdd", "fits"},
		{"3", require(labelTerm("zone NotIn a")), "", "fits"},
		{"4a", require(labelTerm("cores Gt 8")), "cores=16", "fits"},
		{"4b", require(labelTerm("cores Gt 8")), "cores=abc", reject},
		{"4c", require(labelTerm("cores Gt 8")), "", reject},
		{"5a", require(labelTerm("cores Gt abc"), labelTerm("disk In ssd")), "disk=ssd", "fits"},
		{"5b", require(labelTerm("cores Gt abc"), labelTerm("disk In ssd")), "disk=hdd", reject},
		{"6", require(v1.NodeSelectorTerm{}), "disk=hdd", reject},
		{"7", require(fieldTerm("metadata.name In n1; metadata.name In n2")), "", "UU pod affinity terms conflict"},
		{"9", require(fieldTerm("metadata.name In n9"), labelTerm("disk In ssd")), "disk=ssd", "fits"},
		{"no terms", require(), "", reject},
		{"other field", require(fieldTerm("metadata.namespace NotIn n1")), "", "fits"},
		{"two names", require(fieldTerm("metadata.name In n1,n2")), "", reject},
		{"Exists with values", require(labelTerm("disk Exists ssd")), "disk=ssd", reject},
		{"Lt", require(labelTerm("cores Lt 8")), "cores=4", "fits"},
		{"DoesNotExist", require(labelTerm("disk DoesNotExist")), "disk=ssd", reject},
		{"negative bound is no label value", require(labelTerm("cores Gt -1")), "cores=4", reject},
	}
	for _, tt := range tests {
		n := newNode("n1", labelled(tt.labels))
		if got := verdict(Judge(cluster(nodes(n)), pod(tt.part), DefaultProfile()).Nodes[0]); got != tt.want {
			t.Errorf("row %s: got %q, want %q", tt.row, got, tt.want)
		}
	}
}

func TestNodeAffinityNarrowing(t *testing.T) {
	three := nodes(newNode("n1", labelled("zone=a")), newNode("n2", labelled("zone=b")), newNode("n3"))
	mixed := v1.NodeSelectorTerm{MatchFields: parseRequirements("metadata.name In n1"), MatchExpressions: parseRequirements("zone In b")}
	outside := "UU node(s) didn't satisfy plugin(s) [NodeAffinity]"
	tests := []struct {
		row      string
		part     podPart
		verdicts []string
		message  string
	}{
		{"7", require(fieldTerm("metadata.name In n1; metadata.name In n2")),
			[]string{"UU pod affinity terms conflict", "UU pod affinity terms conflict", "UU pod affinity terms conflict"},
			"0/3 nodes are available: pod affinity terms conflict."},
		{"8", require(fieldTerm("metadata.name In n1; metadata.name In n2"), fieldTerm("metadata.name In n3")),
			[]string{outside, outside, "fits"}, ""},
		{"10", require(mixed), []string{"UU node(s) didn't match Pod's node affinity/selector", outside, outside},
			"0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."},
	}
	for _, tt := range tests {
		a := Judge(cluster(three), pod(tt.part), DefaultProfile())
		if got := verdicts(a); fmt.Sprint(got) != fmt.Sprint(tt.verdicts) || a.Rejected != tt.message {
			t.Errorf("row %s: got %q %q, want %q %q", tt.row, got, a.Rejected, tt.verdicts, tt.message)
		}
	}
	if a := Judge(cluster(three), pod(require(mixed)), DefaultProfile()); fmt.Sprint(a.Narrowed) != "[NodeAffinity]" || a.PreFilter != nil {
		t.Errorf("got narrowed %v, PreFilter %v", a.Narrowed, a.PreFilter)
	}
}

func TestNodeAffinityScore(t *testing.T) {
	weighted := func(weight int32, term v1.NodeSelectorTerm) v1.PreferredSchedulingTerm {
		return v1.PreferredSchedulingTerm{Weight: weight, Preference: term}
	}
	ssd := weighted(10, labelTerm("disk In ssd"))
	added := &v1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{weighted(1, labelTerm("disk In ssd"))}}
	three := nodes(newNode("n1", labelled("disk=ssd zone=a")), newNode("n2", labelled("zone=a")), newNode("n3"))
	broken := labelTerm("cores Gt abc")
	tests := []struct {
		row             string
		pod             *v1.Pod
		nodes           []*v1.Node
		added           *v1.NodeAffinity
		raw, normalised string
	}{
		{"11", pod(prefer(ssd, weighted(5, labelTerm("zone In a")), weighted(50, v1.NodeSelectorTerm{}))), three, nil, "[15 5 0]", "[100 33 0]"},
		{"12", pod(), nodes(three[0], three[2]), added, "[1 0]", "[100 0]"},
		{"skip", pod(), three, nil, "[]", "[]"},
		{"weight 0 is not parsed", pod(prefer(ssd, weighted(0, broken))), three, nil, "[10 0 0]", "[100 0 0]"},
		{"one node is not asked", pod(prefer(weighted(1, broken))), three[:1], nil, "[]", "[]"},
	}
	for _, tt := range tests {
		a := Judge(cluster(tt.nodes), tt.pod, Profile{AddedAffinity: tt.added})
		raw, normalised := scored(a, "NodeAffinity")
		if fmt.Sprint(raw) != tt.raw || fmt.Sprint(normalised) != tt.normalised || a.Err != nil {
			t.Errorf("row %s: got %v %v %v, want %s %s", tt.row, raw, normalised, a.Err, tt.raw, tt.normalised)
		}
	}
	a := Judge(cluster(three), pod(prefer(weighted(1, broken))), DefaultProfile())
	if a.Err == nil || !strings.HasPrefix(a.Err.Error(), `running PreScore plugin "NodeAffinity": `) || a.Best != nil {
		t.Errorf("unparsable preference: got %v, best %v", a.Err, a.Best)
	}
}

func TestAddedAffinity(t *testing.T) {
	profile := Profile{AddedAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
		NodeSelectorTerms: []v1.NodeSelectorTerm{labelTerm("disk In ssd")},
	}}}
	two := nodes(newNode("n1", labelled("disk=ssd")), newNode("n2", labelled("disk=hdd")))
	a := Judge(cluster(two), pod(), profile)
	if got := verdicts(a); fmt.Sprint(got) != "[fits UU node(s) didn't match scheduler-enforced node affinity]" {
		t.Errorf("got %q", got)
	}
}

func TestNodePorts(t *testing.T) {
	reject := "U node(s) didn't have free ports for the requested pod ports"
	tests := []struct {
		row       int
		want      []string // protocol ip port
		used      []string
		container func(string) podPart
		verdict   string
	}{
		{1, []string{"TCP 127.0.0.1 80"}, []string{"TCP 127.0.0.2 80"}, run, "fits"},
		{2, []string{"TCP 127.0.0.1 80"}, []string{"UDP 127.0.0.1 80"}, run, "fits"},
		{3, []string{"TCP - 80"}, []string{"TCP 10.0.0.1 80"}, run, reject},
		{4, []string{"TCP 10.0.0.1 80"}, []string{"TCP 0.0.0.0 80"}, run, reject},
		{5, []string{"- 10.0.0.1 80"}, []string{"TCP 10.0.0.1 80"}, run, reject},
		{6, []string{"TCP :: 80"}, []string{"TCP 10.0.0.1 80"}, run, "fits"},
		{7, []string{"TCP 0.0.0.0 80"}, []string{"TCP :: 80"}, run, reject},
		{8, []string{"TCP 10.0.0.1 81", "UDP 10.0.0.1 53"}, []string{"UDP 0.0.0.0 53"}, run, reject},
		{9, []string{"TCP - 80"}, []string{"TCP - 80"}, initial, "fits"},
		{10, []string{"TCP - 80"}, []string{"TCP 0.0.0.0 80"}, sidecar, reject},
		{11, []string{"TCP - 0"}, []string{"TCP 0.0.0.0 80"}, run, "fits"},
	}
	for _, tt := range tests {
		p := pod(tt.container(""), ports(t, tt.want))
		a := Judge(cluster(nodes(newNode("n")), pod(on("n"), run(""), ports(t, tt.used))), p, DefaultProfile())
		if got := verdict(a.Nodes[0]); got != tt.verdict {
			t.Errorf("row %d: got %q, want %q", tt.row, got, tt.verdict)
		}
	}
}

// ports sets the ports of the pod's only container, init or not, from texts such as "TCP
// 10.0.0.1 80". A dash leaves a field empty.
func ports(t *testing.T, all []string) podPart {
	return func(p *v1.Pod) {
		for _, s := range all {
			words := strings.Fields(strings.ReplaceAll(s, "- ", "\"\" "))
			port := v1.ContainerPort{ContainerPort: 80, Protocol: v1.Protocol(strings.Trim(words[0], `"`)), HostIP: strings.Trim(words[1], `"`)}
			if _, err := fmt.Sscan(words[2], &port.HostPort); err != nil {
				t.Fatal(err)
			}
			for _, containers := range [][]v1.Container{p.Spec.Containers, p.Spec.InitContainers} {
				for i := range containers {
					containers[i].Ports = append(containers[i].Ports, port)
				}
			}
		}
	}
}

func TestImageLocality(t *testing.T) {
	uses := func(images ...string) podPart {
		return func(p *v1.Pod) {
			for _, image := range images {
				p.Spec.Containers = append(p.Spec.Containers, v1.Container{Image: image})
			}
		}
	}
	inits := func(p *v1.Pod) { p.Spec.InitContainers = []v1.Container{{Image: "b:1"}} }
	volume := func(p *v1.Pod) {
		p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: "c:1"}}}}
	}
	two := func(first, second string) []*v1.Node {
		return nodes(newNode("n1", stores(first)), newNode("n2", stores(second)))
	}
	one := func(images string) []*v1.Node { return nodes(newNode("n1", stores(images))) }
	var many []*v1.Node
	for i := range 5000 {
		image := ""
		if i < 10 {
			image = "a:1=1000"
		}
		many = append(many, newNode(fmt.Sprintf("n%04d", i), stores(image)))
	}
	tests := []struct {
		row   string
		pod   *v1.Pod
		nodes []*v1.Node
		want  string
	}{
		{"1", pod(uses("a:1")), one("a:1=500"), "[48]"},
		{"2", pod(uses("a:1")), two("a:1=500", ""), "[23 0]"},
		{"3", pod(uses("a:1")), two("a:1=500", "a:1=500"), "[48 48]"},
		{"4a", pod(uses("a:1")), one("a:1=22"), "[0]"},
		{"4b", pod(uses("a:1")), one("a:1=23"), "[0]"},
		{"4c", pod(uses("a:1")), one("a:1=32"), "[0]"},
		{"4d", pod(uses("a:1")), one("a:1=33"), "[1]"},
		{"5a", pod(uses("a:1")), one("a:1=1000"), "[100]"},
		{"5b", pod(uses("a:1")), one("a:1=2000"), "[100]"},
		{"6", pod(uses("a:1", "x:1")), one("a:1=600"), "[29]"},
		{"7", pod(uses("a:1", "a:1")), one("a:1=600"), "[59]"},
		{"9", pod(uses("a:1"), inits, volume), append(one("a:1=300 b:1=300 c:1=300"), newNode("n2"), newNode("n3")), "[9 0 0]"},
		{"10", pod(uses("localhost:5000/app")), one("localhost:5000/app:latest=500"), "[48]"},
		{"11", pod(uses("app")), one("docker.io/library/app:latest=500"), "[0]"},
		{"12", pod(uses("a:1", "b:1")), two("a:1=40 b:1=300", ""), "[7 0]"},
		{"digest", pod(uses("r/a@sha256:ab")), one("r/a@sha256:ab=500"), "[48]"},
		{"size of the first by name", pod(uses("a:1")), two("a:1=500", "a:1=1000"), "[48 48]"},
	}
	for _, tt := range tests {
		if got := scoreAll(t, imageLocalityScore, cluster(tt.nodes), tt.pod, Profile{}); fmt.Sprint(got) != tt.want {
			t.Errorf("row %s: got %v, want %s", tt.row, got, tt.want)
		}
	}
	cy := newCycle(cluster(many), pod(uses("a:1")), Profile{})
	cy.feasible = cy.nodes[:1]
	if s, _ := imageLocalityScore(cy); s.raw[0] != 0 {
		t.Errorf("row 8: got %d, want 0", s.raw[0])
	}
}

func TestNodeDeclaredFeatures(t *testing.T) {
	no, userNS := false, "UserNamespacesHostNetworkSupport"
	hostNet := func(p *v1.Pod) { p.Spec.HostNetwork = true }
	noHostUsers := func(p *v1.Pod) { p.Spec.HostUsers = &no }
	bind := func(p *v1.Pod) {
		p.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
			VolumeMounts: []v1.VolumeMount{{Name: "v", BindMountOptions: []string{"noexec"}}},
		}}}
	}
	restart := func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{RestartPolicyRules: []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}}}
	}
	reject := "UU node(s) didn't match Pod's required features"
	tests := []struct {
		row  string
		pod  *v1.Pod
		node *v1.Node
		want string
	}{
		{"1", pod(), newNode("n"), "fits"},
		{"2", pod(hostNet, noHostUsers), newNode("n"), reject},
		{"3", pod(hostNet, noHostUsers), newNode("n", declares(userNS)), "fits"},
		{"4", pod(hostNet), newNode("n"), "fits"},
		{"5", pod(hostNet, noHostUsers, bind), newNode("n", declares(userNS)), reject},
		{"6", pod(hostNet, noHostUsers), newNode("n", declares("Foo", userNS)), "fits"},
		{"7", pod(hostNet, noHostUsers), newNode("n", declares("VolumeBindMountOptions", userNS)), reject},
		{"restart", pod(restart), newNode("n", declares(userNS)), reject},
		{"restart declared", pod(restart), newNode("n", declares("RestartAllContainersOnContainerExits")), "fits"},
	}
	for _, tt := range tests {
		if got := verdict(Judge(cluster(nodes(tt.node)), tt.pod, DefaultProfile()).Nodes[0]); got != tt.want {
			t.Errorf("row %s: got %q, want %q", tt.row, got, tt.want)
		}
	}
}
