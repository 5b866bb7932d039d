package podtopologyspread_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// The rows follow design/rules/topology.md#spread-events, except where kube-scheduler's
// hints ignore inputs of its filter.
func TestEventsToRegister(t *testing.T) {
	x, y := wearing("app=x"), wearing("app=y")
	xv := func(version string) podPart { return wearing("app=x v=" + version) }
	waiting := pod(x, hard(zone, "app=x"))
	all, none := pod(x, hard(zone, "everything")), pod(x, hard(zone, "absent"))
	twice := pod(x, hard(host, "app=y"), hard(zone, "app=x"))
	keyed := pod(xv("1"), hard(zone, "app=x", matchKeys("v", "w")))
	wearingOnly := func(text string) *v1.Pod { return pod(wearing(text), hard(zone, "app=x", matchKeys("v"))) }
	honors := func(parts ...podPart) *v1.Pod {
		return pod(append(parts, x, hard(zone, "app=x", taintsPolicy("Honor")))...)
	}
	softly := pod(x, soft(zone, "app=x"))
	zoneAndRack := pod(x, hard(zone, "app=x"), hard("rack", "app=x"))
	defaults := listed(constraint(v1.DoNotSchedule, zone))
	honoring := listed(constraint(v1.DoNotSchedule, zone, taintsPolicy("Honor")))
	system := spreadAlone()
	z1, z2, no := zoned("n=z1")[0], zoned("n=z2")[0], zoned("n=")[0]
	rack, taint := with(zoned("n=z1"), "n", also("rack=r1"))[0], with(zoned("n=z1"), "n", tainted)[0]
	ssd := with(zoned("n=z1"), "n", also("disk=ssd"))[0]
	pinned := func(parts ...build.ConstraintOption) *v1.Pod {
		return pod(x, nodeSelector("disk=ssd"), hard(zone, "app=x", parts...))
	}
	taintNo := with(zoned("n="), "n", tainted)[0]

	for _, row := range []struct {
		name    string
		profile oracle.Profile
		waiting *v1.Pod
		event   model.Event
		want    bool
	}{
		{"pod added", system, waiting, podEvent(model.Add, nil, pod(x, on("n"))), true},
		{"pod added, not selected", system, waiting, podEvent(model.Add, nil, pod(y, on("n"))), false},
		{"pod added, selected by the second", system, twice, podEvent(model.Add, nil, pod(x, on("n"))), true},
		{"pod added elsewhere", system, waiting, podEvent(model.Add, nil, pod(x, on("n"), in("other"))), false},
		{"pod added, selector for everything", system, all, podEvent(model.Add, nil, pod(on("n"))), true},
		{"pod added, no selector", system, none, podEvent(model.Add, nil, pod(x, on("n"))), false},
		{"pod added, same version", system, keyed, podEvent(model.Add, nil, pod(xv("1"), on("n"))), true},
		{"pod added, other version", system, keyed, podEvent(model.Add, nil, pod(xv("2"), on("n"))), false},
		{"pod added, soft constraint", system, softly, podEvent(model.Add, nil, pod(x, on("n"))), false},
		{"pod added, no node", system, waiting, podEvent(model.Add, nil, pod(x)), false},
		{"pod added, nominated", system, waiting, podEvent(model.Add, nil, pod(x, nominated("n"))), true},
		{"pod deleted", system, waiting, podEvent(model.Delete, pod(x, on("n")), nil), true},
		{"pod deleted, ending", system, waiting, podEvent(model.Delete, pod(x, on("n"), ending), nil), true},
		{"pod deleted, not selected", system, waiting, podEvent(model.Delete, pod(y, on("n")), nil), false},
		{"pod deleted, nominated", system, waiting, podEvent(model.Delete, pod(x, nominated("n")), nil), true},
		{"pod deleted, no node", system, waiting, podEvent(model.Delete, pod(x), nil), false},
		{"pod relabelled in", system, waiting, podEvent(model.UpdatePodLabel, pod(y, on("n")), pod(x, on("n"))), true},
		{"pod relabelled out", system, waiting, podEvent(model.UpdatePodLabel, pod(x, on("n")), pod(y, on("n"))), true},
		{"pod relabelled within", system, waiting, podEvent(model.UpdatePodLabel, pod(xv("1"), on("n")), pod(xv("2"), on("n"))), false},
		{"pod relabelled elsewhere", system, waiting, podEvent(model.UpdatePodLabel, pod(y, on("n"), in("o")), pod(x, on("n"), in("o"))), false},
		{"pod relabelled, selector for everything", system, all, podEvent(model.UpdatePodLabel, pod(y, on("n")), pod(x, on("n"))), false},
		{"pod ends", system, waiting, podEvent(model.Update, pod(x, on("n")), pod(x, on("n"), ending)), true},
		{"pod ends, not selected", system, waiting, podEvent(model.Update, pod(y, on("n")), pod(y, on("n"), ending)), false},
		{"pod ends and is relabelled", system, waiting, podEvent(model.UpdatePodLabel, pod(x, on("n")), pod(y, on("n"), ending)), true},
		{"pod goes on ending", system, waiting, podEvent(model.Update, pod(x, on("n"), ending), pod(x, on("n"), ending)), false},
		{"pod goes on", system, waiting, podEvent(model.Update, pod(x, on("n")), pod(x, on("n"))), false},
		{"defaults: pod ends", defaults, pod(x), podEvent(model.Update, pod(y, on("n")), pod(y, on("n"), ending)), true},
		{"defaults: pod added", defaults, pod(x), podEvent(model.Add, nil, pod(y, on("n"))), true},
		{"defaults: pod added elsewhere", defaults, pod(x), podEvent(model.Add, nil, pod(x, on("n"), in("other"))), false},
		{"defaults: pod relabelled", defaults, pod(x), podEvent(model.UpdatePodLabel, pod(y, on("n")), pod(x, on("n"))), true},
		{"defaults: own soft constraint", defaults, softly, podEvent(model.Add, nil, pod(x, on("n"))), false},
		{"System defaults: pod relabelled", system, pod(x), podEvent(model.UpdatePodLabel, pod(y, on("n")), pod(x, on("n"))), false},
		{"System defaults: own labels", system, pod(x), targetEvent(model.UpdatePodLabel, pod(x), pod(y)), false},
		{"System defaults: pod added", system, pod(x), podEvent(model.Add, nil, pod(x, on("n"))), false},

		{"own tolerations, honored", system, honors(), targetEvent(model.UpdatePodToleration, honors(), honors(tolerating("a"))), true},
		{"own tolerations, ignored", system, waiting, targetEvent(model.UpdatePodToleration, waiting, pod(x, tolerating("a"), hard(zone, "app=x"))), false},
		{"own tolerations, defaults that honor", honoring, pod(x), targetEvent(model.UpdatePodToleration, pod(x), pod(x, tolerating("a"))), true},
		{"own tolerations, defaults that ignore", defaults, pod(x), targetEvent(model.UpdatePodToleration, pod(x), pod(x, tolerating("a"))), false},
		{"own labels leave", system, waiting, targetEvent(model.UpdatePodLabel, waiting, pod(y, hard(zone, "app=x"))), true},
		{"own labels stay", system, waiting, targetEvent(model.UpdatePodLabel, waiting, pod(xv("1"), hard(zone, "app=x"))), false},
		{"own labels become keys", system, wearingOnly("app=x"), targetEvent(model.UpdatePodLabel, wearingOnly("app=x"), wearingOnly("app=x v=1")), true},
		{"own labels are keys no longer", system, wearingOnly("app=x v=1"), targetEvent(model.UpdatePodLabel, wearingOnly("app=x v=1"), wearingOnly("app=x")), false},
		{"own labels are keys", system, keyed, targetEvent(model.UpdatePodLabel, keyed, pod(xv("2"), hard(zone, "app=x", matchKeys("v")))), true},
		{"own labels, defaults", defaults, pod(x), targetEvent(model.UpdatePodLabel, pod(x), pod(y)), true},
		{"something else", system, waiting, targetEvent(model.UpdatePodScaleDown, waiting, pod(y, hard(zone, "app=x"))), false},

		{"node added", system, waiting, nodeEvent(model.Add, nil, z1), true},
		{"node added without key", system, waiting, nodeEvent(model.Add, nil, no), false},
		{"node added without one key", system, zoneAndRack, nodeEvent(model.Add, nil, z1), false},
		{"node added with all keys", system, zoneAndRack, nodeEvent(model.Add, nil, rack), true},
		{"node added, no hard constraint", system, softly, nodeEvent(model.Add, nil, no), true},
		{"node added, defaults", defaults, pod(x), nodeEvent(model.Add, nil, z1), true},
		{"node added without key, defaults", defaults, pod(x), nodeEvent(model.Add, nil, no), false},
		{"node deleted", system, waiting, nodeEvent(model.Delete, z1, nil), true},
		{"node deleted without key", system, waiting, nodeEvent(model.Delete, no, nil), false},
		{"node gains key", system, waiting, nodeEvent(model.UpdateNodeLabel, no, z1), true},
		{"node loses key", system, waiting, nodeEvent(model.UpdateNodeLabel, z1, no), true},
		{"node moves", system, waiting, nodeEvent(model.UpdateNodeLabel, z1, z2), true},
		{"node gains another label", system, waiting, nodeEvent(model.UpdateNodeLabel, z1, rack), false},
		{"node gains the second key", system, zoneAndRack, nodeEvent(model.UpdateNodeLabel, z1, rack), true},
		{"node moves without the second key", system, zoneAndRack, nodeEvent(model.UpdateNodeLabel, z1, z2), false},
		{"node loses taint", system, waiting, nodeEvent(model.UpdateNodeTaint, taint, z1), true},
		{"node loses taint, no key", system, waiting, nodeEvent(model.UpdateNodeTaint, taintNo, no), false},
		{"node uncordoned", system, waiting, nodeEvent(model.UpdateNodeTaint, z1, z1), false},
		{"node loses taint, no hard constraint", system, softly, nodeEvent(model.UpdateNodeTaint, taintNo, no), true},
		{"node leaves the affinity", system, pinned(), nodeEvent(model.UpdateNodeLabel, ssd, z1), true},
		{"node joins the affinity", system, pinned(), nodeEvent(model.UpdateNodeLabel, z1, ssd), true},
		{"node leaves an ignored affinity", system, pinned(affinityPolicy("Ignore")), nodeEvent(model.UpdateNodeLabel, ssd, z1), false},
		{"node stays in the affinity", system, pinned(), nodeEvent(model.UpdateNodeLabel, ssd, ssd), false},
		{"service selects the pod", defaults, pod(x), selects("default", "", "app=x"), true},
		{"service selects the pod no more", defaults, pod(x), selects("default", "app=x", "app=z"), true},
		{"service gone", defaults, pod(x), selects("default", "app=x", ""), true},
		{"service of others", defaults, pod(x), selects("default", "app=y", "app=z"), false},
		{"service of another namespace", defaults, pod(x), selects("other", "", "app=x"), false},
		{"service, own constraints", defaults, waiting, selects("default", "", "app=x"), false},
		{"service, System defaults", system, pod(x), selects("default", "", "app=x"), false},
		{"own controller", defaults, pod(x, ownedBy("apps/v1", "ReplicaSet", "web")), controllerChanged(model.ReplicaSetKind, "web"), true},
		{"controller of that name of another kind", defaults, pod(x, ownedBy("apps/v1", "ReplicaSet", "web")), controllerChanged(model.StatefulSetKind, "web"), false},
		{"controller of others", defaults, pod(x, ownedBy("apps/v1", "ReplicaSet", "web")), controllerChanged(model.ReplicaSetKind, "db"), false},
		{"node gets room", system, waiting, nodeEvent(model.UpdateNodeAllocatable, z1, z1), false},
	} {
		if helps := plugintest.Helped(t, newPlugin(t, row.profile), model.NewPod(row.waiting), row.event); helps != row.want {
			t.Errorf("%s: helps = %t, want %t", row.name, helps, row.want)
		}
	}
}

// selects returns an event about a service whose selector changes.
func selects(namespace, before, after string) model.Event {
	change := &model.LabelsChange{Ref: model.Ref{Kind: model.ServiceKind, Namespace: namespace, Name: "s"}}
	if before != "" {
		change.Before = pod(wearing(before)).Labels
	}
	if after != "" {
		change.After = pod(wearing(after)).Labels
	}
	return model.Event{Resource: model.SelectorEvent, Action: model.Update, Labels: change}
}

func controllerChanged(kind model.Kind, name string) model.Event {
	change := &model.LabelsChange{Ref: model.Ref{Kind: kind, Namespace: "default", Name: name}}
	return model.Event{Resource: model.SelectorEvent, Action: model.Update, Labels: change}
}

func podEvent(action model.Action, before, after *v1.Pod) model.Event {
	return model.Event{Resource: model.AssignedPodEvent, Action: action, OldPod: podOrNil(before), Pod: podOrNil(after)}
}

func targetEvent(action model.Action, before, after *v1.Pod) model.Event {
	return model.Event{Resource: model.TargetPodEvent, Action: action, OldPod: model.NewPod(before), Pod: model.NewPod(after)}
}

func nodeEvent(action model.Action, before, after *v1.Node) model.Event {
	e := model.Event{Resource: model.NodeEvent, Action: action}
	if before != nil {
		e.OldNode = model.NewNode(before)
	}
	if after != nil {
		e.Node = model.NewNode(after)
	}
	return e
}

func podOrNil(p *v1.Pod) *model.Pod {
	if p == nil {
		return nil
	}
	return model.NewPod(p)
}
