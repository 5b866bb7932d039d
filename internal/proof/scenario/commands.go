package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// statement is one form of line before the expectations. Exactly one of setting and
// command is set.
type statement struct {
	// word is one or two words.
	word, usage string
	// block reports whether the arguments begin a block that extends to the line "end".
	block   func(args []string) bool
	setting func(s *Scenario, args []string, body string) error
	command func(args []string, body string) (func(*world) error, error)
}

// statements are the grammar of commands.
var statements = append([]statement{
	{word: "config", usage: "config KEY=VALUE... | config, YAML lines, end", block: noWords, setting: readConfig},
	{word: "gates", usage: "gates NAME=true|false...", setting: readGates},
	{word: "seed", usage: "seed NUMBER", setting: readSeed},
	{word: "unattended", usage: "unattended", setting: readUnattended},
	{word: "node", usage: "node NAME ATTRIBUTE...", command: addNode},
	{word: "nodes", usage: "nodes NAME xCOUNT ATTRIBUTE...", command: addNodes},
	{word: "pod", usage: "pod NAME ATTRIBUTE...", command: addPod},
	{word: "pods", usage: "pods NAME xCOUNT ATTRIBUTE...", command: addPods},
	{word: "yaml", usage: "yaml, YAML documents, end", block: noWords, command: addYAML},
	{word: "set node", usage: "set node NAME ATTRIBUTE...", command: setNode},
	{word: "set pod", usage: "set pod NAME ATTRIBUTE...", command: setPod},
	{word: "delete node", usage: "delete node NAME", command: deleteNode},
	{word: "delete pod", usage: "delete pod NAME", command: deletePod},
	{word: "fail bind", usage: "fail bind POD once|xCOUNT|always conflict|unavailable|lost", command: failBind},
	{word: "fail mark", usage: "fail mark POD once|xCOUNT|always FAULT", command: failEviction(commit.Mark)},
	{word: "fail delete", usage: "fail delete POD once|xCOUNT|always FAULT", command: failEviction(commit.Delete)},
	{word: "delay bind", usage: "delay bind POD DURATION", command: delayBind},
	{word: "fail provision", usage: "fail provision CLAIM once|xCOUNT|always", command: failProvision},
	{word: "delay provision", usage: "delay provision CLAIM DURATION", command: delayProvision},
	{word: "settle", usage: "settle", command: settle},
	{word: "advance", usage: "advance DURATION", command: advance},
	{word: "restart", usage: "restart", command: restart},
}, slices.Concat(otherStatements(), storageStatements(), deviceStatements(), budgetStatements(), groupStatements(), compositeStatements())...)

func noWords(args []string) bool { return len(args) == 0 }

// statementOf finds the statement of a line by its first words.
func statementOf(words []string) (*statement, []string, error) {
	var known []string
	for i := range statements {
		s := &statements[i]
		n := len(strings.Fields(s.word))
		if len(words) >= n && strings.Join(words[:n], " ") == s.word {
			return s, words[n:], nil
		}
		known = append(known, s.word)
	}
	return nil, nil, fmt.Errorf("unknown command %q; want one of %s", words[0], oneOf(known))
}

var errNoName = errors.New("a name is missing")

func readSeed(s *Scenario, args []string, _ string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one number, got %d words", len(args))
	}
	seed, err := strconv.ParseUint(args[0], 10, 64)
	if err != nil {
		return fmt.Errorf("%q: want a number from 0 to 2^64-1", args[0])
	}
	s.seed = seed
	return nil
}

// numbered parses "NAME xCOUNT" and returns the names NAME-0, NAME-1, ...
func numbered(args []string) (names, rest []string, err error) {
	if len(args) < 2 {
		return nil, nil, errors.New("want a name and a count, such as web x3")
	}
	count, err := countOf(args[1])
	if err != nil {
		return nil, nil, err
	}
	for i := range count {
		names = append(names, fmt.Sprintf("%s-%d", args[0], i))
	}
	return names, args[2:], nil
}

func countOf(word string) (int, error) {
	digits, ok := strings.CutPrefix(word, "x")
	count, err := strconv.Atoi(digits)
	if !ok || err != nil || count < 1 || count > 100_000 {
		return 0, fmt.Errorf("%q: want a count from x1 to x100000", word)
	}
	return count, nil
}

func named(args []string) (names, rest []string, err error) {
	if len(args) == 0 || strings.Contains(args[0], "=") {
		return nil, nil, errNoName
	}
	return args[:1], args[1:], nil
}

func addNode(args []string, _ string) (func(*world) error, error) {
	names, rest, err := named(args)
	if err != nil {
		return nil, err
	}
	return createNodes(names, rest)
}

func addNodes(args []string, _ string) (func(*world) error, error) {
	names, rest, err := numbered(args)
	if err != nil {
		return nil, err
	}
	return createNodes(names, rest)
}

func createNodes(names, attributes []string) (func(*world) error, error) {
	var nodes []*v1.Node
	for _, name := range names {
		node := newNode(name)
		if err := applyAll(nodeAttributes, "node", node, attributes); err != nil {
			return nil, err
		}
		nodes = append(nodes, node)
	}
	return func(w *world) error {
		for _, node := range nodes {
			if w.cluster.Node(node.Name) != nil {
				return fmt.Errorf("node %s is there already; want set node", node.Name)
			}
			w.cluster.SetNode(node)
		}
		return nil
	}, nil
}

func addPod(args []string, _ string) (func(*world) error, error) {
	names, rest, err := named(args)
	if err != nil {
		return nil, err
	}
	return createPods(names, names[0], rest)
}

func addPods(args []string, _ string) (func(*world) error, error) {
	names, rest, err := numbered(args)
	if err != nil {
		return nil, err
	}
	return createPods(names, args[0], rest)
}

func createPods(names []string, group string, attributes []string) (func(*world) error, error) {
	var pods []*v1.Pod
	for _, name := range names {
		pod := newPod(keyNamed(name), keyNamed(group).Name)
		if err := applyAll(podAttributes, "pod", pod, labelsFirst(attributes)); err != nil {
			return nil, err
		}
		pods = append(pods, pod)
	}
	return func(w *world) error {
		for _, pod := range pods {
			if w.cluster.Pod(model.PodKey{Namespace: pod.Namespace, Name: pod.Name}) != nil {
				return fmt.Errorf("pod %s is there already; want set pod", pod.Name)
			}
			w.cluster.SetPod(pod)
		}
		return nil
	}, nil
}

func addYAML(_ []string, body string) (func(*world) error, error) {
	objects, err := manifest.Decode("yaml block", []byte(body))
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		for _, object := range objects.Objects() {
			_, template := object.(*resourcev1.ResourceClaimTemplate)
			row := kinds.Of(object)
			if !template && (row == nil || row.Kind == model.NodeKind || row.Kind == model.PodKind) {
				continue
			}
			if err := w.cluster.SetObject(object); err != nil {
				return err
			}
		}
		for _, node := range objects.Nodes {
			w.cluster.SetNode(node)
		}
		for _, pod := range objects.Pods {
			// A second block for the same object replaces its content.
			pod.UID = ""
			w.cluster.SetPod(pod)
		}
		return nil
	}, nil
}

func setNode(args []string, _ string) (func(*world) error, error) {
	names, rest, err := named(args)
	if err != nil {
		return nil, err
	}
	if err := applyAll(nodeAttributes, "node", newNode(names[0]), rest); err != nil {
		return nil, err
	}
	return func(w *world) error {
		have := w.cluster.Node(names[0])
		if have == nil {
			return fmt.Errorf("there is no node %s", names[0])
		}
		node := have.DeepCopy()
		if err := applyAll(nodeAttributes, "node", node, rest); err != nil {
			return err
		}
		w.cluster.SetNode(node)
		return nil
	}, nil
}

func setPod(args []string, _ string) (func(*world) error, error) {
	names, rest, err := named(args)
	if err != nil {
		return nil, err
	}
	key := keyNamed(names[0])
	if err := applyAll(podAttributes, "pod", newPod(key, key.Name), rest); err != nil {
		return nil, err
	}
	return func(w *world) error {
		have := w.cluster.Pod(key)
		if have == nil {
			return fmt.Errorf("there is no pod %s", key)
		}
		pod := have.DeepCopy()
		if err := applyAll(podAttributes, "pod", pod, labelsFirst(rest)); err != nil {
			return err
		}
		w.cluster.SetPod(pod)
		return nil
	}, nil
}

func deleteNode(args []string, _ string) (func(*world) error, error) {
	if len(args) != 1 {
		return nil, errNoName
	}
	return func(w *world) error {
		if !w.cluster.DeleteNode(args[0]) {
			return fmt.Errorf("there is no node %s", args[0])
		}
		return nil
	}, nil
}

func deletePod(args []string, _ string) (func(*world) error, error) {
	if len(args) != 1 {
		return nil, errNoName
	}
	return func(w *world) error {
		if !w.cluster.DeletePod(keyNamed(args[0])) {
			return fmt.Errorf("there is no pod %s", args[0])
		}
		return nil
	}, nil
}

func failBind(args []string, _ string) (func(*world) error, error) {
	if len(args) != 3 {
		return nil, errors.New("want POD once|xCOUNT|always conflict|unavailable|lost")
	}
	times, fault, err := faultOf(args)
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		w.cluster.FailBind(keyNamed(args[0]), fault, times)
		return nil
	}, nil
}

// faultOf reads the last two of the arguments POD TIMES FAULT.
func faultOf(args []string) (times int, fault simulate.Fault, err error) {
	if times, err = timesOf(args[1]); err == nil {
		fault, err = simulate.BindFaultNamed(args[2])
	}
	return times, fault, err
}

// failEviction makes one kind of request in the eviction of a pod fail.
func failEviction(kind commit.RequestKind) func(args []string, body string) (func(*world) error, error) {
	return func(args []string, _ string) (func(*world) error, error) {
		if len(args) != 3 {
			return nil, errors.New("want POD once|xCOUNT|always FAULT")
		}
		times, fault, err := faultOf(args)
		if err != nil {
			return nil, err
		}
		return func(w *world) error { w.cluster.FailEviction(keyNamed(args[0]), kind, fault, times); return nil }, nil
	}
}

// timesOf parses a number of failures; -1 means always.
func timesOf(word string) (int, error) {
	switch word {
	case "once":
		return 1, nil
	case "always":
		return -1, nil
	}
	times, err := countOf(word)
	if err != nil {
		return 0, fmt.Errorf("%w, or once or always", err)
	}
	return times, nil
}

func failProvision(args []string, _ string) (func(*world) error, error) {
	if len(args) != 2 {
		return nil, errors.New("want CLAIM once|xCOUNT|always")
	}
	times, err := timesOf(args[1])
	if err != nil {
		return nil, err
	}
	return func(w *world) error { w.cluster.FailProvision(model.ClaimKey(keyNamed(args[0])), times); return nil }, nil
}

func delayProvision(args []string, _ string) (func(*world) error, error) {
	if len(args) != 2 {
		return nil, errors.New("want CLAIM DURATION")
	}
	delay, err := durationOf(args[1])
	if err != nil {
		return nil, err
	}
	return func(w *world) error { w.cluster.DelayProvision(model.ClaimKey(keyNamed(args[0])), delay); return nil }, nil
}

// readUnattended leaves storage objects and ResourceClaims as they are written.
func readUnattended(s *Scenario, args []string, _ string) error {
	if len(args) != 0 {
		return fmt.Errorf("%q: want nothing after it", args[0])
	}
	s.volumes.Unattended, s.devices.Unattended = true, true
	return nil
}

func delayBind(args []string, _ string) (func(*world) error, error) {
	if len(args) != 2 {
		return nil, errors.New("want POD DURATION")
	}
	delay, err := durationOf(args[1])
	if err != nil {
		return nil, err
	}
	return func(w *world) error {
		w.cluster.DelayBind(keyNamed(args[0]), delay)
		return nil
	}, nil
}

func durationOf(word string) (time.Duration, error) {
	d, err := time.ParseDuration(word)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q: want a duration such as 300ms, 5s or 6m", word)
	}
	return d, nil
}

func settle(args []string, _ string) (func(*world) error, error) {
	if len(args) != 0 {
		return nil, fmt.Errorf("%q: want nothing after it", args[0])
	}
	return func(w *world) error { return w.cluster.Settle(w.note) }, nil
}

func advance(args []string, _ string) (func(*world) error, error) {
	if len(args) != 1 {
		return nil, errors.New("want a duration such as 5s")
	}
	d, err := durationOf(args[0])
	if err != nil {
		return nil, err
	}
	return func(w *world) error { return w.cluster.AdvanceTo(w.cluster.Now().Add(d), w.note) }, nil
}

func restart(args []string, _ string) (func(*world) error, error) {
	if len(args) != 0 {
		return nil, fmt.Errorf("%q: want nothing after it", args[0])
	}
	return func(w *world) error { return w.cluster.Restart() }, nil
}

// keyNamed parses a pod's name: NAME in the namespace default, or NAMESPACE/NAME.
func keyNamed(name string) model.PodKey {
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		return model.PodKey{Namespace: namespace, Name: rest}
	}
	return model.PodKey{Namespace: v1.NamespaceDefault, Name: name}
}
