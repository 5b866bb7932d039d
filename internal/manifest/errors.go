package manifest

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// errorsMax is how many problems one error lists. More than a screenful is not read.
const errorsMax = 20

// Error is one mistake in the input.
type Error struct {
	File    string // as it was given; "-" is standard input
	Line    int    // where the object begins, from 1; 0 for the file as a whole
	Object  string // "Pod default/web", or "" if no object was recognized
	Field   string // "spec.containers[0].ports[1].hostPort", or ""
	Problem string // what is wrong and what would be correct
}

// Error returns "pods.yaml:12: Pod default/web: spec.priority: what is wrong", without the parts that are not known.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	for _, part := range []string{e.Object, e.Field} {
		if part != "" {
			b.WriteString(": ")
			b.WriteString(part)
		}
	}
	b.WriteString(": ")
	b.WriteString(e.Problem)
	return b.String()
}

// join joins all errors, nil if there are none. The first errorsMax can be extracted with errors.As.
func join(all []*Error) error {
	if len(all) == 0 {
		return nil
	}
	var shown []error
	for _, e := range all[:min(len(all), errorsMax)] {
		shown = append(shown, e)
	}
	if more := len(all) - errorsMax; more > 0 {
		shown = append(shown, fmt.Errorf("and %d more", more))
	}
	return errors.Join(shown...)
}

// report collects the errors of one object.
type report struct {
	file   string
	line   int
	object string
	errs   []*Error
}

func (r *report) add(path, format string, args ...any) {
	r.errs = append(r.errs, &Error{File: r.file, Line: r.line, Object: r.object, Field: path, Problem: fmt.Sprintf(format, args...)})
}

// addList adds the errors of the API machinery's own validation.
func (r *report) addList(list field.ErrorList) {
	for _, e := range list {
		r.add(e.Field, "%s", e.ErrorBody())
	}
}

// addErr adds an error that may hold field errors, as from the parsers of selectors.
func (r *report) addErr(path *field.Path, err error) {
	if err == nil {
		return
	}
	var aggregate interface{ Errors() []error }
	if errors.As(err, &aggregate) {
		for _, e := range aggregate.Errors() {
			r.addErr(path, e)
		}
		return
	}
	var at *field.Error
	if errors.As(err, &at) {
		r.add(at.Field, "%s", at.ErrorBody())
		return
	}
	r.add(path.String(), "%s", err)
}
