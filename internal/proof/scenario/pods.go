package scenario

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// podAttributes are the grammar of pods.
var podAttributes = append([]attribute[*v1.Pod]{
	{key: "cpu", value: "QUANTITY", apply: podAmount("cpu")},
	{key: "mem", value: "QUANTITY", apply: podAmount("mem")},
	{key: "ephemeral", value: "QUANTITY", apply: podAmount("ephemeral")},
	{key: "container", value: "ITEM:VALUE,...", apply: podContainer},
	{key: "init", value: "ITEM:VALUE,...", apply: podInit(false)},
	{key: "sidecar", value: "ITEM:VALUE,...", apply: podInit(true)},
	{key: "overhead", value: "RESOURCE:QUANTITY,...", apply: func(p *v1.Pod, _, value string) error { return amounts(&p.Spec.Overhead, value) }},
	{key: "podlevel", value: "RESOURCE:QUANTITY,...", apply: podLevel},
	{key: "on", value: "NODE", apply: func(p *v1.Pod, _, value string) error { p.Spec.NodeName = value; return nil }},
	{key: "scheduler", value: "NAME", apply: func(p *v1.Pod, _, value string) error { p.Spec.SchedulerName = value; return nil }},
	{key: "priority", value: "NUMBER", apply: podPriority},
	{key: "label.", value: "VALUE", apply: func(p *v1.Pod, rest, value string) error { setLabel(&p.Labels, rest, value); return nil }},
	{key: "unlabel", value: "KEY", apply: func(p *v1.Pod, _, value string) error { delete(p.Labels, labelKey(value)); return nil }},
	{key: "tolerate", value: "*, KEY[=VALUE][:EFFECT] or none", apply: podToleration},
	{key: "select", value: "KEY=VALUE or none", apply: podSelector},
	{key: "affinity", value: "TERM or none", apply: podAffinity},
	{key: "prefer", value: "WEIGHT:TERM or none", apply: podPreference},
	{key: "spread", value: spreadForm, apply: podSpread},
	{key: "affine", value: termForm, apply: podRequires(required)},
	{key: "repel", value: termForm, apply: podRequires(forbidden)},
	{key: "prefer-pod", value: preferenceForm, apply: podPreferences(preferred)},
	{key: "avoid-pod", value: preferenceForm, apply: podPreferences(avoided)},
	{key: "owner", value: "KIND/NAME or none", apply: podOwner},
	{key: "port", value: "PORT[/PROTOCOL][@IP]", apply: func(p *v1.Pod, _, value string) error { return hostPort(&p.Spec.Containers[0], value) }},
	{key: "image", value: "NAME", apply: func(p *v1.Pod, _, value string) error { p.Spec.Containers[0].Image = value; return nil }},
	{key: "pvc", value: "CLAIM or none", apply: podClaim},
	{key: "ephemeral-pvc", value: ephemeralForm, apply: podEphemeral},
	{key: "claim", value: "RESOURCECLAIM or none", apply: podDevices},
	{key: "claimtemplate", value: "RESOURCECLAIMTEMPLATE or none", apply: podTemplate},
	{key: "disk", value: diskForm, apply: podDisk},
	{key: "group", value: "NAME", apply: setGroup},
	{key: "gate", value: "NAME or none", apply: podGate},
	{key: "hostnetwork", bare: true, value: "true or false", apply: func(p *v1.Pod, _, value string) (err error) {
		p.Spec.HostNetwork, err = truth(value)
		return err
	}},
	{key: "hostusers", value: "true or false", apply: func(p *v1.Pod, _, value string) error {
		users, err := truth(value)
		p.Spec.HostUsers = &users
		return err
	}},
	{key: "nominated", value: "NODE or none", apply: podNomination},
	{key: "terminating", bare: true, value: "true", apply: podTerminating},
	{key: "phase", value: "Pending, Running, Succeeded or Failed", apply: podPhase},
	{key: resourceKey, value: "QUANTITY", apply: func(p *v1.Pod, rest, value string) error {
		return setAmount(&p.Spec.Containers[0].Resources.Requests, v1.ResourceName(rest), value)
	}},
}, preemptionAttributes...)

// newPod returns a pending pod, a replica of app, with one container without requests.
func newPod(key model.PodKey, app string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace, Labels: map[string]string{appLabel: app}},
		Spec:       v1.PodSpec{SchedulerName: v1.DefaultSchedulerName, Containers: []v1.Container{{Name: "main"}}},
		Status:     v1.PodStatus{Phase: v1.PodPending},
	}
}

func podAmount(word string) func(*v1.Pod, string, string) error {
	return func(p *v1.Pod, _, value string) error {
		return setAmount(&p.Spec.Containers[0].Resources.Requests, resourceNamed(word), value)
	}
}

// amounts parses RESOURCE:QUANTITY,...
func amounts(list *v1.ResourceList, value string) error {
	if value == none {
		*list = nil
		return nil
	}
	for _, item := range strings.Split(value, ",") {
		name, amount, ok := strings.Cut(item, ":")
		if !ok {
			return fmt.Errorf("%q has no quantity", item)
		}
		if err := setAmount(list, resourceNamed(name), amount); err != nil {
			return err
		}
	}
	return nil
}

// container parses ITEM:VALUE,...: resources, port and image.
func container(name, value string) (v1.Container, error) {
	c := v1.Container{Name: name}
	if value == none {
		return c, nil
	}
	for _, item := range strings.Split(value, ",") {
		key, val, ok := strings.Cut(item, ":")
		var err error
		switch {
		case !ok:
			err = fmt.Errorf("%q has no value", item)
		case key == "port":
			err = hostPort(&c, val)
		case key == "image":
			c.Image = val
		default:
			err = setAmount(&c.Resources.Requests, resourceNamed(key), val)
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

func podContainer(p *v1.Pod, _, value string) error {
	c, err := container(fmt.Sprintf("c%d", len(p.Spec.Containers)), value)
	p.Spec.Containers = append(p.Spec.Containers, c)
	return err
}

func podInit(restartable bool) func(*v1.Pod, string, string) error {
	return func(p *v1.Pod, _, value string) error {
		c, err := container(fmt.Sprintf("i%d", len(p.Spec.InitContainers)), value)
		if restartable {
			policy := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &policy
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		return err
	}
}

func podLevel(p *v1.Pod, _, value string) error {
	if p.Spec.Resources == nil {
		p.Spec.Resources = &v1.ResourceRequirements{}
	}
	return amounts(&p.Spec.Resources.Requests, value)
}

func podPriority(p *v1.Pod, _, value string) error {
	number, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return fmt.Errorf("%q is not a whole number of 32 bits", value)
	}
	priority := int32(number)
	p.Spec.Priority = &priority
	return nil
}

func podToleration(p *v1.Pod, _, value string) error {
	if value == none {
		p.Spec.Tolerations = nil
		return nil
	}
	var t v1.Toleration
	rest, word, hasEffect := strings.Cut(value, ":")
	if hasEffect {
		effect, err := effectNamed(word)
		if err != nil {
			return err
		}
		t.Effect = effect
	}
	switch key, val, valued := strings.Cut(rest, "="); {
	case rest == "*":
		t.Operator = v1.TolerationOpExists
	case valued:
		t.Key, t.Operator, t.Value = key, v1.TolerationOpEqual, val
	default:
		t.Key, t.Operator = key, v1.TolerationOpExists
	}
	p.Spec.Tolerations = append(p.Spec.Tolerations, t)
	return nil
}

func podSelector(p *v1.Pod, _, value string) error {
	if value == none {
		p.Spec.NodeSelector = nil
		return nil
	}
	key, val, ok := strings.Cut(value, "=")
	if !ok {
		return fmt.Errorf("%q has no value", value)
	}
	setLabel(&p.Spec.NodeSelector, key, val)
	return nil
}

// hostPort parses PORT[/PROTOCOL][@IP].
func hostPort(c *v1.Container, value string) error {
	rest, ip, _ := strings.Cut(value, "@")
	number, protocol, _ := strings.Cut(rest, "/")
	port, err := strconv.ParseInt(number, 10, 32)
	if err != nil || port < 1 || port > 65535 {
		return fmt.Errorf("%q is not a port from 1 to 65535", number)
	}
	switch v1.Protocol(protocol) {
	case "", v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP:
	default:
		return fmt.Errorf("%q is not a protocol: TCP, UDP or SCTP", protocol)
	}
	c.Ports = append(c.Ports, v1.ContainerPort{
		ContainerPort: int32(port), HostPort: int32(port), Protocol: v1.Protocol(protocol), HostIP: ip,
	})
	return nil
}

func podGate(p *v1.Pod, _, value string) error {
	if value == none {
		p.Spec.SchedulingGates = nil
		return nil
	}
	p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, v1.PodSchedulingGate{Name: value})
	return nil
}

func podNomination(p *v1.Pod, _, value string) error {
	if value == none {
		value = ""
	}
	p.Status.NominatedNodeName = value
	return nil
}

func podTerminating(p *v1.Pod, _, value string) error {
	if value != "true" {
		return fmt.Errorf("%q: deletion cannot be taken back", value)
	}
	at := metav1.NewTime(firstDay)
	p.DeletionTimestamp = &at
	return nil
}

func podPhase(p *v1.Pod, _, value string) error {
	switch phase := v1.PodPhase(value); phase {
	case v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed:
		p.Status.Phase = phase
		return nil
	}
	return fmt.Errorf("%q is not a phase", value)
}
