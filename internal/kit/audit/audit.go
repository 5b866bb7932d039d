package audit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Violations are the violated invariants of one part of the scheduler.
type Violations struct {
	part  string
	found []string
}

// Of returns no violations of a part, whose name every sentence will begin with.
func Of(part string) *Violations { return &Violations{part: part} }

// Add adds a violation in the words of fmt.Sprintf, on one line: some names have several.
func (v *Violations) Add(format string, values ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, values...), "\n", " ")
	v.found = append(v.found, v.part+": "+text)
}

// Err returns the violations joined into one error, nil if there is none. They are sorted, because audits walk over maps.
func (v *Violations) Err() error {
	slices.Sort(v.found)
	errs := make([]error, len(v.found))
	for i, text := range v.found {
		errs[i] = errors.New(text)
	}
	return errors.Join(errs...)
}
