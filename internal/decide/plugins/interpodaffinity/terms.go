package interpodaffinity

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// parsedTerms caches terms by their text, because pods of a deployment have equal terms
// and hints need the terms of each waiting pod. It drops all when full, and is safe for
// concurrent use. Malformed terms are not cached: the error may depend on the order of
// the source's parts, which the text does not preserve.
type parsedTerms struct {
	known sync.Map // unique.Handle[string] to *model.Term
	count atomic.Int32
}

const parsedTermsKept = 16_384

// parse returns a term of a pod in the owner's namespace.
func (p *parsedTerms) parse(owner string, ref *model.TermRef) (*model.Term, error) {
	if known, ok := p.known.Load(ref.Text); ok {
		return known.(*model.Term), nil
	}
	term, err := model.NewTerm(owner, ref.Source)
	if err != nil {
		return nil, err
	}
	if p.count.Add(1) > parsedTermsKept {
		p.known.Clear()
		p.count.Store(1)
	}
	p.known.Store(ref.Text, term)
	return term, nil
}

// kinds are kube-scheduler's names of the lists of terms, in its parsing order.
var kinds = [...]string{
	model.RequiredAffinity:      "requiredAffinityTerms",
	model.RequiredAntiAffinity:  "requiredAntiAffinityTerms",
	model.PreferredAffinity:     "preferredAffinityTerms",
	model.PreferredAntiAffinity: "preferredAntiAffinityTerms",
}

// check returns kube-scheduler's error for a pod with malformed terms: the first of each
// kind.
func (p *Plugin) check(pod *model.Pod) error {
	var first []error
	for i := range pod.Terms {
		ref := &pod.Terms[i]
		if _, err := p.terms.parse(pod.Namespace, ref); err != nil {
			if first == nil {
				first = make([]error, len(kinds))
			}
			if first[ref.Kind] == nil {
				first[ref.Kind] = fmt.Errorf("%s: %w", kinds[ref.Kind], err)
			}
		}
	}
	return utilerrors.NewAggregate(first)
}

// need is the pod's namespace and labels, by which other pods' terms select it, and its
// own required or preferred terms.
type need struct {
	plugin *Plugin
	pod    *model.Pod
	kinds  [2]model.TermKind
	err    error // why a term of any kind cannot be parsed
}

// required and preferred are the needs of CountNeed and SetNeed.
type (
	required struct {
		need
		prepared *demanded // set by Prepare
	}
	preferred struct {
		need
		prepared []longTerms // set by Prepare for many terms
	}
)

func (p *Plugin) need(pod *model.Pod, kinds ...model.TermKind) need {
	return need{p, pod, [2]model.TermKind(kinds), p.check(pod)}
}

// AppendText appends the canonical text. Needs with malformed terms are equal exactly if
// they fail with the same error.
func (n *need) AppendText(text []byte) []byte {
	if n.err != nil {
		return fmt.Appendf(text, "error %v", n.err)
	}
	text = model.AppendQuote(text, n.pod.Namespace)
	text = model.AppendLabels(text, n.pod.Labels)
	var terms []string
	for ref := range n.terms {
		terms = append(terms, fmt.Sprintf("\n%d %d %s", ref.Kind, ref.Weight, ref.Text.Value()))
	}
	slices.Sort(terms)
	for _, term := range terms {
		text = append(text, term...)
	}
	return text
}

// terms yields the pod's terms of the need's kinds.
func (n *need) terms(yield func(ref *model.TermRef) bool) {
	for i := range n.pod.Terms {
		if ref := &n.pod.Terms[i]; slices.Contains(n.kinds[:], ref.Kind) && !yield(ref) {
			return
		}
	}
}

// few is the number of terms up to which each is counted alone. Pods often share single
// terms.
const few = 16

// isLong reports whether the need has more than few terms.
func (n *need) isLong() bool {
	count := 0
	for range n.terms {
		if count++; count > few {
			return true
		}
	}
	return false
}

// likeness returns a pod that other pods' terms select exactly if they select this pod.
func likeness(pod *model.Pod) model.Pod {
	return model.Pod{Namespace: pod.Namespace, Labels: pod.Labels}
}

// selection is a set of pods that is counted by the domains of a key.
type selection struct {
	pods state.PodSet
	key  state.TopologyKey
}

func (x *selection) tally(v state.View) *state.Tally {
	return v.Tally(x.pods, x.key, state.NodeSet{})
}

// selectionOf returns the pods that a term selects.
func (p *Plugin) selectionOf(pod *model.Pod, ref *model.TermRef) (selection, error) {
	term, err := p.terms.parse(pod.Namespace, ref)
	if err != nil {
		return selection{}, err
	}
	pods := state.PodSet{Text: "InterPodAffinity" + setText(term, ref), Terms: []*model.Term{term}}
	return selection{pods, state.TopologyKey{Label: term.Key}}, nil
}

// setText returns the canonical text of the pods that a term selects, independent of its
// key.
func setText(term *model.Term, ref *model.TermRef) string {
	size := 128
	for _, name := range term.Namespaces {
		size += len(name) + len(` ""`)
	}
	text := append(make([]byte, 0, size), '\n')
	for _, name := range term.Namespaces {
		text = model.AppendQuote(append(text, ' '), name)
	}
	text = model.AppendSelector(append(text, '/'), ref.Source.NamespaceSelector)
	return string(model.AppendSelector(append(text, '/'), ref.Source.LabelSelector))
}
