package manifest

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxErrors limits the problems in one error, because nobody reads more than a screenful.
const maxErrors = 20

// Error is one mistake in the input.
type Error struct {
	File    string // as it was given; "-" is standard input
	Line    int    // the object's first line, from 1; 0 for the whole file
	Object  string // "Pod default/web", or "" if no object was recognized
	Field   string // "spec.containers[0].ports[1].hostPort", or ""
	Problem string // the mistake and its correction
	use     string // of a remark: how the value is used; "" if as it is
}

// Error returns "pods.yaml:12: Pod default/web: spec.priority: problem", without unknown
// parts.
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

// join joins all errors; nil without any. The first maxErrors can be extracted with
// errors.As.
func join(all []*Error) error {
	if len(all) == 0 {
		return nil
	}
	var shown []error
	for _, e := range all[:min(len(all), maxErrors)] {
		shown = append(shown, e)
	}
	if more := len(all) - maxErrors; more > 0 {
		shown = append(shown, fmt.Errorf("and %d more", more))
	}
	return errors.Join(shown...)
}

// report collects the errors of one object.
type report struct {
	file    string
	line    int
	object  string
	within  string // prefix of the path of each field: "spec.template.", or ""
	errs    []*Error
	remarks []*Error // about objects that an API server admits
}

func (r *report) add(path, format string, args ...any) {
	r.errs = append(r.errs, &Error{File: r.file, Line: r.line, Object: r.object, Field: r.field(path), Problem: fmt.Sprintf(format, args...)})
}

// field returns the path of a field of the object.
func (r *report) field(path string) string {
	if path == "" {
		return strings.TrimSuffix(r.within, ".")
	}
	return r.within + path
}

// warn adds a remark on a value that an API server admits and a scheduler must handle.
func (r *report) warn(path, format string, args ...any) {
	r.add(path, format, args...)
	r.admitFrom(len(r.errs) - 1)
}

// admit turns all errors into remarks.
func (r *report) admit() { r.admitFrom(0) }

// admitFrom turns the errors from the given index on into remarks.
func (r *report) admitFrom(first int) {
	r.admitIf(first, func(*Error) bool { return true })
}

// admitIf turns errors from the given index on into remarks if API servers admit them.
func (r *report) admitIf(first int, admitted func(*Error) bool) {
	kept := r.errs[:first]
	for _, e := range r.errs[first:] {
		if admitted(e) {
			r.remarks = append(r.remarks, e)
		} else {
			kept = append(kept, e)
		}
	}
	r.errs = kept
}

// addList adds the errors of the API machinery's own validation.
func (r *report) addList(list field.ErrorList) {
	for _, e := range list {
		r.add(e.Field, "%s", e.ErrorBody())
	}
}

// addErr adds an error that may contain field errors, as from the parsers of selectors.
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

// remarks are about odd values of objects that are read nevertheless. Equal remarks are
// counted.
type remarks struct {
	first []*Error
	more  []int
	at    map[string]int // by field and problem
}

func (r *remarks) add(all []*Error) {
	for _, e := range all {
		kind, _, _ := strings.Cut(e.Object, " ")
		key := kind + "\n" + e.Field + "\n" + e.Problem
		if at, known := r.at[key]; known {
			r.more[at]++
			continue
		}
		r.at[key] = len(r.first)
		r.first, r.more = append(r.first, e), append(r.more, 0)
	}
}

// texts returns the remarks as sentences, in the order of their first objects, up to a
// limit.
func (r *remarks) texts() []string {
	var all []string
	for i, e := range r.first[:min(len(r.first), maxErrors)] {
		text := e.Error() + "; API servers accept it, and " + cmp.Or(e.use, "it is used as it is")
		if r.more[i] > 0 {
			text += fmt.Sprintf(" (%s more like it)", count(r.more[i], "object"))
		}
		all = append(all, text)
	}
	if more := len(r.first) - maxErrors; more > 0 {
		all = append(all, fmt.Sprintf("other odd values in the files that API servers accept: %d", more))
	}
	return all
}
