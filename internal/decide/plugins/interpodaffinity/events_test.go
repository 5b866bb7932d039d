package interpodaffinity_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

// came, went and relabelled return events about an assigned pod, unless the parts change
// that.
func came(parts ...part) model.Event {
	return model.Event{Resource: model.AssignedPodEvent, Action: model.Add, Pod: model.NewPod(placed(parts))}
}

func went(parts ...part) model.Event {
	return model.Event{Resource: model.AssignedPodEvent, Action: model.Delete, OldPod: model.NewPod(placed(parts))}
}

func relabelled(before, after string, parts ...part) model.Event {
	old, now := placed(append(parts, wearing(before))), placed(append(parts, wearing(after)))
	return model.Event{Resource: model.AssignedPodEvent, Action: model.UpdatePodLabel, OldPod: model.NewPod(old), Pod: model.NewPod(now)}
}

func placed(parts []part) *v1.Pod { return pod(append([]part{on("n1")}, parts...)...) }

func nominatedTo(node string) part {
	return func(p *v1.Pod) { p.Spec.NodeName, p.Status.NominatedNodeName = "", node }
}

// nodeCame and nodeRelabelled return events about a node with these labels.
func nodeCame(labels string) model.Event {
	return model.Event{Resource: model.NodeEvent, Action: model.Add, Node: nodeWith(labels)}
}

func nodeRelabelled(before, after string) model.Event {
	return model.Event{Resource: model.NodeEvent, Action: model.UpdateNodeLabel, OldNode: nodeWith(before), Node: nodeWith(after)}
}

func nodeWent(labels string) model.Event {
	return model.Event{Resource: model.NodeEvent, Action: model.Delete, OldNode: nodeWith(labels)}
}

// within gives all namespaces the labels.
func within(labels string, e model.Event) model.Event {
	e.Cluster = oneTeam(labels)
	return e
}

type oneTeam string

func (text oneTeam) NamespaceLabels(string) labels.Set { return labelsOf(string(text)) }

func (text oneTeam) NamespacesSelected(by labels.Selector, _ int) (names []string, ok bool) {
	if by.Matches(text.NamespaceLabels("")) {
		names = []string{"default", "other"}
	}
	return names, true
}

func (oneTeam) Attachable(model.ClaimKey) (driver, handle string) { return "", "" }

func namespaceRelabelled(name, before, after string) model.Event {
	return model.Event{Resource: model.NamespaceEvent, Action: model.Update, Labels: &model.LabelsChange{
		Ref: model.Ref{Kind: model.NamespaceKind, Name: name}, Before: known(before), After: known(after),
	}}
}

func namespaceCame(name string) model.Event {
	e := namespaceRelabelled(name, "", "")
	e.Labels.Before = nil
	return e
}

func known(text string) labels.Set {
	if text == "" {
		return labels.Set{}
	}
	return labelsOf(text)
}

func nodeWith(labels string) *model.Node {
	n := newNode("n1", "")
	n.Labels = labelsOf(labels)
	return model.NewNode(n)
}

// The rows follow design/rules/topology.md#affinity-events, except where
// kube-scheduler's hints ignore inputs of its filter.
func TestEventsToRegister(t *testing.T) {
	db, web := wearing("app=db"), wearing("app=web")
	rackDB, zoneC := term("rack", "app=db"), term("zone", "tier=c")
	toDB, fromDB := near(rackDB), apart(rackDB)
	inTeam, notInTeam, inAny := whereNamespace("team=x"), whereNamespace("team NotIn x"), whereNamespace("everything")
	broken := term("rack", "app In")
	const queue, skip = true, false
	for _, row := range []struct {
		name    string
		waiting *v1.Pod
		event   model.Event
		want    bool
	}{
		{"wanted pod came", pod(toDB), came(db), queue},
		{"other pod came", pod(toDB), came(web), skip},
		{"wanted pod of another namespace came", pod(toDB), came(db, in("other")), skip},
		{"pod came that one of two terms selects", pod(near(rackDB, zoneC)), came(db), skip},
		{"pod came that both terms select", pod(near(rackDB, zoneC)), came(wearing("app=db tier=c")), queue},
		{"pod came, no affinity", pod(fromDB), came(db), skip},
		{"pod came to nowhere", pod(toDB), came(db, nominatedTo("")), skip},
		{"nominated pod came", pod(toDB), came(db, nominatedTo("n1")), queue},
		{"came to be wanted", pod(toDB), relabelled("app=web", "app=db"), queue},
		{"wanted before and after", pod(toDB), relabelled("app=db", "app=db x=y"), skip},
		{"wanted no longer", pod(toDB), relabelled("app=db", "app=web"), skip},
		{"unwanted no longer", pod(fromDB), relabelled("app=db", "app=web"), queue},
		{"came to be unwanted", pod(fromDB), relabelled("app=web", "app=db"), skip},
		{"unwanted by another term now", pod(apart(rackDB, zoneC)), relabelled("app=db", "tier=c"), queue},
		{"unwanted by two terms, then by none", pod(apart(rackDB, zoneC)), relabelled("app=db tier=c", "app=web"), queue},
		{"relabelled nowhere", pod(fromDB), relabelled("app=db", "app=web", nominatedTo("")), skip},
		{"relabelled, no terms", pod(db), relabelled("app=db", "app=web", apart(rackDB)), skip},
		{"unwanted pod went", pod(fromDB), went(db), queue},
		{"pod of one of two terms went", pod(apart(zoneC, rackDB)), went(db), queue},
		{"other pod went", pod(fromDB), went(web), skip},
		{"wanted pod went", pod(web, toDB), went(db), skip},
		{"last wanted pod went", pod(db, toDB), went(db), queue},
		{"wanted no longer, and the pod may be the first", pod(db, toDB), relabelled("app=db", "app=web"), queue},
		{"repelling pod went", pod(db), went(fromDB), queue},
		{"pod that repels others went", pod(web), went(fromDB), skip},
		{"pod that only dislikes went", pod(db), went(dislikes(1, rackDB), toDB), skip},
		{"pod that was nowhere went", pod(fromDB), went(db, nominatedTo("")), skip},
		{"nominated pod went", pod(fromDB), went(db, nominatedTo("n1")), queue},
		{"selector by label selects no namespace: came", pod(near(term("rack", "app=db", inTeam))), came(db), skip},
		{"selector by label selects no namespace: went", pod(apart(term("rack", "app=db", inTeam))), went(db), skip},
		{"selector by label selects no namespace: repelling went", pod(db), went(apart(term("rack", "app=db", inTeam))), skip},
		{"selector for any selects every namespace: came", pod(near(term("rack", "app=db", inAny))), came(db, in("other")), queue},
		{"selector by absence selects every known namespace: came", pod(near(term("rack", "app=db", notInTeam))), within("a=b", came(db, in("other"))), queue},
		{"selector by absence selects no unknown namespace: came", pod(near(term("rack", "app=db", notInTeam))), came(db, in("other")), skip},
		{"selector by absence selects every namespace: repelling went", pod(db), went(in("other"), apart(term("rack", "app=db", notInTeam))), queue},
		{"listed namespace: came", pod(near(term("rack", "app=db", inNamespaces("other"), inTeam))), came(db, in("other")), queue},
		{"broken terms: came", pod(near(broken)), came(web), queue},
		{"broken terms: came to nowhere", pod(near(broken)), came(web, nominatedTo("")), skip},
		{"broken preferred terms say nothing", pod(likes(1, broken), toDB), came(web), skip},
		{"broken terms of the pod that went", pod(db), went(apart(broken)), queue},
		{"broken terms: node came", pod(apart(broken), toDB), nodeCame("x=y"), queue},
		{"node came with the key", pod(toDB), nodeCame("rack=r1"), queue},
		{"node came without the key", pod(toDB), nodeCame("zone=z1"), skip},
		{"node came with one of two keys", pod(near(rackDB, zoneC)), nodeCame("zone=z1"), queue},
		{"node came without the key of anti-affinity", pod(fromDB), nodeCame("x=y"), queue},
		{"node came, no terms", pod(db), nodeCame("rack=r1"), skip},
		{"key appeared", pod(toDB), nodeRelabelled("x=y", "rack=r1"), queue},
		{"value changed", pod(toDB), nodeRelabelled("rack=r1", "rack=r2"), queue},
		{"key disappeared", pod(toDB), nodeRelabelled("rack=r1", "x=y"), skip},
		{"other label changed", pod(toDB), nodeRelabelled("rack=r1 x=y", "rack=r1 x=z"), skip},
		{"key of anti-affinity appeared", pod(fromDB), nodeRelabelled("x=y", "rack=r1"), skip},
		{"value of anti-affinity changed", pod(fromDB), nodeRelabelled("rack=r1", "rack=r2"), queue},
		{"key of anti-affinity disappeared", pod(fromDB), nodeRelabelled("rack=r1", "x=y"), queue},
		{"other label changed, anti-affinity", pod(fromDB), nodeRelabelled("rack=r1 x=y", "rack=r1 x=z"), skip},
		{"node relabelled, no terms", pod(db), nodeRelabelled("rack=r1", "rack=r2"), skip},
		{"preferred terms say nothing", pod(likes(1, rackDB), dislikes(1, rackDB)), nodeCame("rack=r1"), skip},
		{"own labels changed", pod(), model.Event{Resource: model.TargetPodEvent, Action: model.UpdatePodLabel}, queue},
		{"own request reduced", pod(toDB), model.Event{Resource: model.TargetPodEvent, Action: model.UpdatePodScaleDown}, skip},
		{"a pod turned terminating", pod(fromDB), model.Event{Resource: model.AssignedPodEvent, Action: model.Update}, skip},
		{"a taint", pod(fromDB), model.Event{Resource: model.NodeEvent, Action: model.UpdateNodeTaint}, skip},
		{"node of the domain went", pod(fromDB), nodeWent("rack=r1"), queue},
		{"node without the key went", pod(fromDB), nodeWent("zone=z1"), skip},
		{"node went, affinity", pod(toDB), nodeWent("rack=r1"), skip},
		{"node went, and the pod may be the first", pod(db, toDB), nodeWent("rack=r1"), queue},
		{"key disappeared, and the pod may be the first", pod(db, toDB), nodeRelabelled("rack=r1", "x=y"), queue},
		{"node went, no terms", pod(db), nodeWent("rack=r1"), skip},
		{"wanted pod came to a selected namespace", pod(near(term("rack", "app=db", inTeam))), within("team=x", came(db)), queue},
		{"wanted pod came to another namespace", pod(near(term("rack", "app=db", inTeam))), within("team=y", came(db)), skip},
		{"unwanted pod of a selected namespace went", pod(apart(term("rack", "app=db", inTeam))), within("team=x", went(db)), queue},
		{"unwanted pod of another namespace went", pod(apart(term("rack", "app=db", inTeam))), within("team=y", went(db)), skip},
		{"pod went that repels a selected namespace", pod(db), within("team=x", went(apart(term("rack", "app=db", inTeam)))), queue},
		{"pod went that repels another namespace", pod(db), within("team=y", went(apart(term("rack", "app=db", inTeam)))), skip},
		{"namespace comes to be wanted", pod(near(term("rack", "app=db", inTeam))), namespaceRelabelled("other", "team=y", "team=x"), queue},
		{"namespace is wanted no longer", pod(near(term("rack", "app=db", inTeam))), namespaceRelabelled("other", "team=x", ""), skip},
		{"namespace is wanted no longer, and the pod may be the first", pod(db, near(term("rack", "app=db", inTeam))), namespaceRelabelled("other", "team=x", ""), queue},
		{"namespace is unwanted no longer", pod(apart(term("rack", "app=db", inTeam))), namespaceRelabelled("other", "team=x", ""), queue},
		{"namespace comes to be unwanted", pod(apart(term("rack", "app=db", inTeam))), namespaceRelabelled("other", "", "team=x"), skip},
		{"other label of a namespace", pod(apart(term("rack", "app=db", inTeam))), namespaceRelabelled("other", "a=b team=x", "team=x"), skip},
		{"namespace relabelled, no selector", pod(fromDB), namespaceRelabelled("other", "team=x", ""), skip},
		{"namespace came that has no label", pod(near(term("rack", "app=db", notInTeam))), namespaceCame("other"), queue},
		{"own namespace relabelled", pod(db), namespaceRelabelled("default", "team=x", ""), queue},
	} {
		if got := plugintest.Helped(t, newPlugin(t, nil), model.NewPod(row.waiting), row.event); got != row.want {
			t.Errorf("%s: queue %v, want %v", row.name, got, row.want)
		}
	}
}
