package nodeports

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func port(protocol v1.Protocol, ip string, hostPort int32) v1.ContainerPort {
	return v1.ContainerPort{Protocol: protocol, HostIP: ip, HostPort: hostPort, ContainerPort: 8080}
}

func object(ports ...v1.ContainerPort) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Ports: ports}}},
	}
}

func inInit(policy *v1.ContainerRestartPolicy, ports ...v1.ContainerPort) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec:       v1.PodSpec{InitContainers: []v1.Container{{RestartPolicy: policy, Ports: ports}}},
	}
}

func node(held ...v1.ContainerPort) state.Node {
	return plugintest.Node(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, object(held...))
}

func TestFilter(t *testing.T) {
	const tcp, udp = v1.ProtocolTCP, v1.ProtocolUDP
	always := v1.ContainerRestartPolicyAlways
	any80 := port(tcp, "0.0.0.0", 80)
	type ports = []v1.ContainerPort
	for _, row := range []struct {
		name   string
		wanted *v1.Pod
		used   ports
		skips  bool
		fits   bool
	}{
		{"other address", object(port(tcp, "127.0.0.1", 80)), ports{port(tcp, "127.0.0.2", 80)}, false, true},
		{"other protocol", object(port(tcp, "127.0.0.1", 80)), ports{port(udp, "127.0.0.1", 80)}, false, true},
		{"any address wanted", object(port(tcp, "", 80)), ports{port(tcp, "10.0.0.1", 80)}, false, false},
		{"any address used", object(port(tcp, "10.0.0.1", 80)), ports{any80}, false, false},
		{"protocol defaults to TCP", object(port("", "10.0.0.1", 80)), ports{port(tcp, "10.0.0.1", 80)}, false, false},
		{":: wanted is an address", object(port(tcp, "::", 80)), ports{port(tcp, "10.0.0.1", 80)}, false, true},
		{":: used is an address", object(any80), ports{port(tcp, "::", 80)}, false, false},
		{"one conflict is enough", object(port(tcp, "10.0.0.1", 81), port(udp, "10.0.0.1", 53)), ports{port(udp, "0.0.0.0", 53)}, false, false},
		{"init container", inInit(nil, any80), ports{any80}, true, true},
		{"sidecar", inInit(&always, any80), ports{any80}, false, false},
		{"no host port", object(v1.ContainerPort{ContainerPort: 80}), ports{any80}, true, true},
		{"own ports do not conflict", object(any80, port(tcp, "10.0.0.1", 80)), nil, false, true},
	} {
		waiting := model.NewPod(row.wanted)
		if skips := plugintest.FilterNeed(New(), waiting).IsZero(); skips != row.skips {
			t.Errorf("%s: skips = %t, want %t", row.name, skips, row.skips)
		}
		filter := plugintest.Verdicts(New(), waiting)
		code := filter.Filter(node(row.used...))
		if fits := code == 0; fits != row.fits {
			t.Errorf("%s: fits = %t, want %t", row.name, fits, row.fits)
		}
		if code != 0 && (code.IsUnresolvable() || filter.Reasons(code)[0] != "node(s) didn't have free ports for the requested pod ports") {
			t.Errorf("%s: rejected with %x %q", row.name, code, filter.Reasons(code))
		}
	}
}

func TestNeed(t *testing.T) {
	a, b := port("TCP", "", 80), port("UDP", "10.0.0.1", 53)
	for _, row := range []struct {
		name       string
		one, other *v1.Pod
		equal      bool
	}{
		{"order", object(a, b), object(b, a), true},
		{"defaults", object(port("", "", 80)), object(port("TCP", "0.0.0.0", 80)), true},
		{"repetition", object(a, a), object(a), true},
		{"protocol", object(port("UDP", "", 80)), object(a), false},
		{"address", object(port("TCP", "10.0.0.1", 80)), object(a), false},
		{"number", object(port("TCP", "", 8)), object(a), false},
		{"more", object(a, b), object(a), false},
	} {
		one, other := plugintest.FilterNeed(New(), model.NewPod(row.one)), plugintest.FilterNeed(New(), model.NewPod(row.other))
		if got := one == other; got != row.equal {
			t.Errorf("%s: equal = %t, want %t: %s and %s", row.name, got, row.equal, one, other)
		}
	}
}

func TestEventsToRegister(t *testing.T) {
	deleted := func(nodeName, nominated string, ports ...v1.ContainerPort) model.Event {
		gone := object(ports...)
		gone.Spec.NodeName, gone.Status.NominatedNodeName = nodeName, nominated
		return model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: model.NewPod(gone)}
	}
	waiting := model.NewPod(object(port("TCP", "", 80)))
	tcp, udp := port("TCP", "10.0.0.1", 80), port("UDP", "10.0.0.1", 80)
	for _, row := range []struct {
		name  string
		event model.Event
		want  bool
	}{
		{"other protocol freed", deleted("n", "", udp), false},
		{"port freed", deleted("n", "", tcp), true},
		{"port freed on the nominated node", deleted("", "n", tcp), true},
		{"port was not held", deleted("", "", tcp), false},
		{"no ports", deleted("n", ""), false},
		{"node added", model.Event{Resource: model.NodeEvent, Action: model.Add, Node: model.NewNode(&v1.Node{})}, true},
		{"pod added", model.Event{Resource: model.AssignedPodEvent, Action: model.Add, Pod: waiting}, false},
	} {
		helps := false
		for _, registration := range New().EventsToRegister() {
			helps = helps || registration.Helps(waiting, row.event)
		}
		if helps != row.want {
			t.Errorf("%s: helps = %t, want %t", row.name, helps, row.want)
		}
	}
}

func TestFilterAllocatesNothing(t *testing.T) {
	filter, n := plugintest.Verdicts(New(), model.NewPod(object(port("TCP", "", 80)))), node(port("TCP", "", 81), port("UDP", "", 80))
	if allocs := testing.AllocsPerRun(100, func() { filter.Filter(n) }); allocs != 0 {
		t.Errorf("Filter allocates %v times", allocs)
	}
}

func BenchmarkFilter(b *testing.B) {
	filter, n := plugintest.Verdicts(New(), model.NewPod(object(port("TCP", "", 80)))), node(port("TCP", "", 81), port("UDP", "", 80))
	b.ReportAllocs()
	for b.Loop() {
		filter.Filter(n)
	}
}
