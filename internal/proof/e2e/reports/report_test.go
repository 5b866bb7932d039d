package main

import (
	"strings"
	"testing"
)

// TestReports reads all files. No two reports may share a cluster-scoped object, because
// reports run in parallel.
func TestReports(t *testing.T) {
	reports, err := load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(reports) == 0 {
		t.Fatal("the folder has no report")
	}
	owners := map[string]string{}
	for _, r := range reports {
		for _, step := range r.Steps {
			for _, raw := range step.Create {
				object, err := r.expand(raw, nil)
				if err != nil {
					t.Fatalf("%s: %v", r.Name, err)
				}
				if object.GetNamespace() != "" {
					continue
				}
				key := object.GetKind() + " " + object.GetName()
				if owner, taken := owners[key]; taken && owner != r.Name {
					t.Errorf("%s and %s both create %s", owner, r.Name, key)
				}
				owners[key] = r.Name
			}
			for _, target := range step.targets() {
				if _, ok := kinds[target.Kind]; !ok || target.Name == "" {
					t.Errorf("%s: a step names no object: %+v", r.Name, target)
				}
			}
		}
	}
}

// targets returns the objects that a step patches or deletes.
func (s *Step) targets() []*Target {
	switch {
	case s.Patch != nil:
		return []*Target{&s.Patch.Target}
	case s.Delete != nil:
		return []*Target{s.Delete}
	}
	return nil
}

// TestCheck covers incomplete reports.
func TestCheck(t *testing.T) {
	first, last := Step{Delete: &Target{}}, Step{Expect: &Expectation{}}
	whole := Report{Area: "a", Right: "r", Source: "s", Steps: []Step{first, last}}
	for _, test := range []struct {
		change func(*Report)
		want   string
	}{
		{func(*Report) {}, ""},
		{func(r *Report) { r.Issue = "kubernetes/kubernetes#1" }, ""},
		{func(r *Report) { r.Issue = "kubernetes/kubernetes" }, "is not OWNER/NAME#NUMBER"},
		{func(r *Report) { r.Source = "" }, "are required"},
		{func(r *Report) { r.Steps = []Step{last, last} }, "sets the scene"},
		{func(r *Report) { r.Steps = []Step{first, first} }, "the last step expects nothing"},
		{func(r *Report) { r.Steps = []Step{{}, last} }, "exactly one thing"},
		{func(r *Report) { r.Steps = []Step{{Delete: &Target{}, Patch: &Patch{}}, last} }, "exactly one thing"},
	} {
		r := whole
		test.change(&r)
		err := r.check()
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, want %q", r, err, test.want)
		}
	}
}
