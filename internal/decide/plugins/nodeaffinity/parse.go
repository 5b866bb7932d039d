package nodeaffinity

import (
	v1 "k8s.io/api/core/v1"
	labelset "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file reproduces the library's errors. The library copies all requirements of a
// term for each of them, which is quadratic. A test compares both.

var selections = map[v1.NodeSelectorOperator]selection.Operator{
	v1.NodeSelectorOpIn: selection.In, v1.NodeSelectorOpNotIn: selection.NotIn, v1.NodeSelectorOpExists: selection.Exists,
	v1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, v1.NodeSelectorOpGt: selection.GreaterThan, v1.NodeSelectorOpLt: selection.LessThan,
}

var (
	labelOperators = []v1.NodeSelectorOperator{
		v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist, v1.NodeSelectorOpGt, v1.NodeSelectorOpLt,
	}
	fieldOperators = labelOperators[:2]
)

// preferredErr returns why terms cannot be parsed, or nil.
func preferredErr(terms []v1.PreferredSchedulingTerm) error {
	var errs []error
	for i := range terms {
		if counts(&terms[i]) {
			errs = append(errs, termErrs(&terms[i].Preference, (*field.Path)(nil).Index(i))...)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return utilerrors.Flatten(utilerrors.NewAggregate(errs))
}

func parses(t *v1.NodeSelectorTerm) bool { return len(termErrs(t, nil)) == 0 }

func termErrs(t *v1.NodeSelectorTerm, path *field.Path) (errs []error) {
	for i := range t.MatchExpressions {
		if err := labelErr(&t.MatchExpressions[i], path, i); err != nil {
			errs = append(errs, err)
		}
	}
	for i := range t.MatchFields {
		if err := fieldErr(&t.MatchFields[i], path, i); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func labelErr(r *v1.NodeSelectorRequirement, path *field.Path, i int) error {
	at := path.Child("matchExpressions").Index(i)
	operator, ok := selections[r.Operator]
	if !ok {
		return field.NotSupported(at.Child("operator"), r.Operator, labelOperators)
	}
	_, err := labelset.NewRequirement(r.Key, operator, r.Values, field.WithPath(at))
	return err
}

func fieldErr(r *v1.NodeSelectorRequirement, path *field.Path, i int) error {
	at := path.Child("matchFields").Index(i)
	switch {
	case r.Operator != v1.NodeSelectorOpIn && r.Operator != v1.NodeSelectorOpNotIn:
		return field.NotSupported(at.Child("operator"), r.Operator, fieldOperators)
	case len(r.Values) != 1:
		return field.Invalid(at.Child("values"), r.Values, "must have one element")
	}
	return nil
}
