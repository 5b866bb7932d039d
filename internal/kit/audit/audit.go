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

// Of returns an empty list of violations. Each sentence will begin with the name of the
// part.
func Of(part string) *Violations { return &Violations{part: part} }

// Add adds a violation, formatted as by fmt.Sprintf. Line breaks become spaces, because
// some names contain them.
func (v *Violations) Add(format string, values ...any) {
	text := strings.ReplaceAll(fmt.Sprintf(format, values...), "\n", " ")
	v.found = append(v.found, v.part+": "+text)
}

// Err returns the violations joined into one error; nil if none was added. They are
// sorted, because audits iterate over maps.
func (v *Violations) Err() error {
	slices.Sort(v.found)
	errs := make([]error, len(v.found))
	for i, text := range v.found {
		errs[i] = errors.New(text)
	}
	return errors.Join(errs...)
}
