package outside

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// Address is the address of a case's extenders until they are served.
const Address = "http://extenders.invalid"

// The answers of extenders in annotations, in addition to those for plugins. A pod's
// annotation is "<extender>/<verb>" or "<extender>/<verb>.<colour>".
const (
	Silent = "silent" // neither passed nor failed
	Both   = "both"   // failed in both ways
	Status = "500"    // the status code
	Add    = "add"    // the first pod of the node becomes a victim
	Fewer  = "fewer"  // at most one victim is left
	Empty  = "empty"  // no victim is left
	More   = "more"   // of violated budgets
)

// Extenders serves the extenders of a case, with its nodes and pods.
type Extenders struct {
	*httptest.Server
	nodes map[string]*v1.Node
	first map[string]*v1.Pod // by UID on each node
}

// Serve starts the extenders. Close ends them.
func Serve(nodes []*v1.Node, pods []*v1.Pod) *Extenders {
	e := &Extenders{nodes: map[string]*v1.Node{}, first: map[string]*v1.Pod{}}
	for _, n := range nodes {
		e.nodes[n.Name] = n
	}
	for _, p := range pods {
		finished := p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
		if first := e.first[p.Spec.NodeName]; !finished && (first == nil || p.UID < first.UID) {
			e.first[p.Spec.NodeName] = p
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{extender}/filter", e.filter)
	mux.HandleFunc("/{extender}/prioritize", e.prioritize)
	mux.HandleFunc("/{extender}/preempt", e.preempt)
	e.Server = httptest.NewServer(mux)
	return e
}

// question is one request.
type question struct {
	w    http.ResponseWriter
	e    *Extenders
	pod  *v1.Pod
	verb string // with the extender
}

// ask reads a request. It returns nil if the answer is a failure.
func (e *Extenders) ask(w http.ResponseWriter, r *http.Request, verb string, args any, pod **v1.Pod) *question {
	if err := json.NewDecoder(r.Body).Decode(args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil
	}
	q := &question{w, e, *pod, r.PathValue("extender") + "/" + verb}
	if q.pod.Annotations[q.verb] == Status {
		http.Error(w, "as the pod says", http.StatusInternalServerError)
		return nil
	}
	return q
}

func (q *question) says(node string) string {
	return q.pod.Annotations[q.verb+"."+q.e.nodes[node].Annotations[ColourKey]]
}

func (q *question) answer(result any) {
	if err := json.NewEncoder(q.w).Encode(result); err != nil {
		panic(err)
	}
}

func namesIn(args *extenderv1.ExtenderArgs) []string {
	if args.NodeNames != nil {
		return *args.NodeNames
	}
	var all []string
	for i := range args.Nodes.Items {
		all = append(all, args.Nodes.Items[i].Name)
	}
	return all
}

func (e *Extenders) filter(w http.ResponseWriter, r *http.Request) {
	var args extenderv1.ExtenderArgs
	q := e.ask(w, r, "filter", &args, &args.Pod)
	if q == nil {
		return
	}
	result := extenderv1.ExtenderFilterResult{FailedNodes: extenderv1.FailedNodesMap{}, FailedAndUnresolvableNodes: extenderv1.FailedNodesMap{}}
	if q.pod.Annotations[q.verb] == Broke {
		result.Error = q.verb + " is broken"
	}
	passed := []string{}
	for _, name := range namesIn(&args) {
		switch says := q.says(name); says {
		case No, Never, Both:
			if says != Never {
				result.FailedNodes[name] = q.verb + " says no"
			}
			if says != No {
				result.FailedAndUnresolvableNodes[name] = q.verb + " says never"
			}
		case Silent:
		default:
			passed = append(passed, name)
		}
	}
	if args.NodeNames != nil {
		result.NodeNames = &passed
	} else {
		result.Nodes = &v1.NodeList{}
		for i := range args.Nodes.Items {
			if slices.Contains(passed, args.Nodes.Items[i].Name) {
				result.Nodes.Items = append(result.Nodes.Items, args.Nodes.Items[i])
			}
		}
	}
	q.answer(&result)
}

func (e *Extenders) prioritize(w http.ResponseWriter, r *http.Request) {
	var args extenderv1.ExtenderArgs
	q := e.ask(w, r, "prioritize", &args, &args.Pod)
	if q == nil {
		return
	}
	result := extenderv1.HostPriorityList{{Host: "unknown", Score: 10}}
	for _, name := range namesIn(&args) {
		points, _ := strconv.ParseInt(e.nodes[name].Annotations[RateKey], 10, 64)
		if q.says(name) != Silent {
			result = append(result, extenderv1.HostPriority{Host: name, Score: points % 11})
		}
	}
	q.answer(&result)
}

func (e *Extenders) preempt(w http.ResponseWriter, r *http.Request) {
	var args extenderv1.ExtenderPreemptionArgs
	q := e.ask(w, r, "preempt", &args, &args.Pod)
	if q == nil {
		return
	}
	all := args.NodeNameToMetaVictims
	if all == nil {
		all = map[string]*extenderv1.MetaVictims{}
		for name, victims := range args.NodeNameToVictims {
			all[name] = &extenderv1.MetaVictims{NumPDBViolations: victims.NumPDBViolations}
			for _, pod := range victims.Pods {
				all[name].Pods = append(all[name].Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
			}
		}
	}
	for name, victims := range all {
		switch q.says(name) {
		case No:
			delete(all, name)
		case Add:
			victims.Pods = q.e.add(name, victims.Pods)
		case Fewer:
			if len(victims.Pods) == 0 {
				continue
			}
			victims.Pods = []*extenderv1.MetaPod{slices.MinFunc(victims.Pods, func(a, b *extenderv1.MetaPod) int { return strings.Compare(a.UID, b.UID) })}
		case Empty:
			victims.Pods = nil
		case More:
			victims.NumPDBViolations++
		}
	}
	q.answer(&extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: all})
}

// add adds the first pod of a node to the victims, unless it is one.
func (e *Extenders) add(nodeName string, victims []*extenderv1.MetaPod) []*extenderv1.MetaPod {
	first := e.first[nodeName]
	if first == nil || slices.ContainsFunc(victims, func(p *extenderv1.MetaPod) bool { return p.UID == string(first.UID) }) {
		return victims
	}
	return append(victims, &extenderv1.MetaPod{UID: string(first.UID)})
}

// Config returns the text of a configuration with the address of the served extenders.
func (e *Extenders) Config(text []byte) []byte {
	return []byte(strings.ReplaceAll(string(text), Address, e.URL))
}

// Extender returns the name of an extender by its position.
func Extender(at int) string { return fmt.Sprintf("extender-%d", at) }
