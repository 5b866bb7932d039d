package scenario

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/model"
)

// other is an object that is neither a node nor a pod, during its construction.
type other struct {
	labels map[string]string
	// pairs and selector are the value of "select"; the kind selects one of them.
	pairs    map[string]string
	selector *metav1.LabelSelector
}

// The grammars of other objects.
var (
	namespaceAttributes = []attribute[*other]{
		{key: "label.", value: "VALUE", apply: func(o *other, rest, value string) error { setLabel(&o.labels, rest, value); return nil }},
	}
	pairsAttributes = []attribute[*other]{
		{key: "select", value: "KEY=VALUE", apply: func(o *other, _, value string) error {
			key, val, ok := strings.Cut(value, "=")
			if !ok {
				return fmt.Errorf("%q has no value", value)
			}
			setLabel(&o.pairs, key, val)
			return nil
		}},
	}
	selectorAttributes = []attribute[*other]{
		{key: "select", value: "SELECTOR", apply: func(o *other, _, value string) (err error) {
			o.selector, err = labelSelector(value)
			return err
		}},
	}
)

// otherKind is a kind of object that is neither a node nor a pod.
type otherKind struct {
	word       string
	kind       model.Kind
	attributes []attribute[*other]
	build      func(meta metav1.ObjectMeta, o *other) runtime.Object
}

// otherKinds returns the kinds with commands of their own.
func otherKinds() []otherKind {
	return []otherKind{
		{"namespace", model.NamespaceKind, namespaceAttributes, func(meta metav1.ObjectMeta, o *other) runtime.Object {
			meta.Namespace, meta.Labels = "", o.labels
			return &v1.Namespace{ObjectMeta: meta}
		}},
		{"service", model.ServiceKind, pairsAttributes, func(meta metav1.ObjectMeta, o *other) runtime.Object {
			return &v1.Service{ObjectMeta: meta, Spec: v1.ServiceSpec{Selector: o.pairs}}
		}},
		{"replicationcontroller", model.ReplicationControllerKind, pairsAttributes, func(meta metav1.ObjectMeta, o *other) runtime.Object {
			return &v1.ReplicationController{ObjectMeta: meta, Spec: v1.ReplicationControllerSpec{Selector: o.pairs}}
		}},
		{"replicaset", model.ReplicaSetKind, selectorAttributes, func(meta metav1.ObjectMeta, o *other) runtime.Object {
			return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: o.selector}}
		}},
		{"statefulset", model.StatefulSetKind, selectorAttributes, func(meta metav1.ObjectMeta, o *other) runtime.Object {
			return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: o.selector}}
		}},
	}
}

// otherStatements are the commands for these kinds: one to create or replace, and one to
// delete.
func otherStatements() []statement {
	var all []statement
	for _, k := range otherKinds() {
		all = append(all,
			statement{word: k.word, usage: k.word + " NAME ATTRIBUTE...", command: k.set},
			statement{word: "delete " + k.word, usage: "delete " + k.word + " NAME", command: k.remove})
	}
	return all
}

func (k otherKind) set(args []string, _ string) (func(*world) error, error) {
	names, rest, err := named(args)
	if err != nil {
		return nil, err
	}
	made := &other{}
	if err := applyAll(k.attributes, k.word, made, rest); err != nil {
		return nil, err
	}
	key := keyNamed(names[0])
	if !kinds.Get(k.kind).Namespaced && strings.Contains(names[0], "/") {
		return nil, fmt.Errorf("%q: a %s is in no namespace", names[0], k.word)
	}
	object := k.build(metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, made)
	return func(w *world) error { return w.cluster.SetObject(object) }, nil
}

func (k otherKind) remove(args []string, _ string) (func(*world) error, error) {
	if len(args) != 1 {
		return nil, errNoName
	}
	key := keyNamed(args[0])
	ref := model.Ref{Kind: k.kind, Namespace: key.Namespace, Name: key.Name}
	if !kinds.Get(k.kind).Namespaced {
		ref.Namespace = ""
	}
	return func(w *world) error {
		if !w.cluster.DeleteObject(ref) {
			return errors.New("there is no " + k.word + " " + args[0])
		}
		return nil
	}, nil
}
