package nodeaffinity

import (
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
)

// The canonical texts quote every name and sort everything whose order has no effect:
// selector entries, terms, the requirements of a term, the values of a requirement.
// Repetitions stay, because they can make a term invalid or count twice.

// appendFilter appends the text of a node selector and of required terms, which may be
// nil. Terms that match nothing differ from nil.
func appendFilter(text []byte, selector map[string]string, terms *v1.NodeSelector) []byte {
	text = append(text, "filter"...)
	for _, l := range labelsOf(selector) {
		text = append(text, ' ')
		text = model.AppendQuote(text, l.key)
		text = append(text, '=')
		text = model.AppendQuote(text, l.value)
	}
	if terms == nil {
		return text
	}
	texts := make([]string, 0, len(terms.NodeSelectorTerms))
	for i := range terms.NodeSelectorTerms {
		if t := &terms.NodeSelectorTerms[i]; !isEmpty(t) {
			texts = append(texts, termText(t))
		}
	}
	return append(append(text, " one of"...), sortedText(texts)...)
}

// scoreText returns the text of the preferred terms that affect a score; it may be empty.
func scoreText(terms []v1.PreferredSchedulingTerm) string {
	texts := make([]string, 0, len(terms))
	for i := range terms {
		if t := &terms[i]; counts(t) {
			texts = append(texts, strconv.Itoa(int(t.Weight))+termText(&t.Preference))
		}
	}
	return sortedText(texts)
}

func termText(t *v1.NodeSelectorTerm) string {
	texts := make([]string, 0, len(t.MatchExpressions)+len(t.MatchFields))
	for i := range t.MatchExpressions {
		texts = append(texts, requirementText("label", &t.MatchExpressions[i]))
	}
	for i := range t.MatchFields {
		texts = append(texts, requirementText("field", &t.MatchFields[i]))
	}
	return "(" + sortedText(texts) + ")"
}

func requirementText(of string, r *v1.NodeSelectorRequirement) string {
	text := make([]byte, 0, 64)
	text = append(text, of...)
	text = model.AppendQuote(text, r.Key)
	text = model.AppendQuote(text, string(r.Operator))
	values := r.Values
	if len(values) > 1 {
		values = model.SortedCopy(values)
	}
	for _, value := range values {
		text = model.AppendQuote(text, value)
	}
	return string(text)
}

func sortedText(texts []string) string {
	slices.Sort(texts)
	return strings.Join(texts, " ")
}
