package model_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/internal/model"
)

// FuzzSelector takes two label selectors and labels, as text. Labels that a selector
// matches must have its Demands. Selectors with the same canonical text must match the
// same labels.
func FuzzSelector(f *testing.F) {
	for _, seed := range [][3]string{
		{"app=web", "app in (web)", "app=web,tier=front"},
		{"app in (web,db),tier!=x", "tier notin (x),app in (db,web,db)", "app=db"},
		{"app,!canary", "!canary,app", "app="},
		{"a=1,a=2", "a in (1),a in (2)", "a=1"},
		{"", "a", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, one, other, set string) {
		of, err := labels.ConvertSelectorToLabelsMap(set)
		if err != nil {
			return
		}
		matches := func(text string) (canonical string, matched bool) {
			parsed, err := metav1.ParseToLabelSelector(text)
			if err != nil {
				return "", false
			}
			selector, err := metav1.LabelSelectorAsSelector(parsed)
			if err != nil {
				return "", false
			}
			matched = selector.Matches(of)
			for _, some := range model.Demands(selector) {
				has := false
				for _, l := range some {
					has = has || of.Has(l.Key) && of.Get(l.Key) == l.Value
				}
				if matched && !has {
					t.Fatalf("%q matches %q, which has none of %v", text, set, some)
				}
			}
			return string(model.AppendSelector([]byte("selector "), parsed)), matched
		}
		oneText, oneMatches := matches(one)
		otherText, otherMatches := matches(other)
		if oneText == otherText && oneMatches != otherMatches {
			t.Fatalf("%q and %q have the text %s; for %q they say %t and %t", one, other, oneText, set, oneMatches, otherMatches)
		}
	})
}
