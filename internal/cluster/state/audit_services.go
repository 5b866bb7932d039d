package state

import (
	"github.com/berth-scheduler/berth/internal/kit/audit"
	"github.com/berth-scheduler/berth/internal/model"
)

func (s *State) auditOwners(v *audit.Violations) {
	x, version := &s.selectorSources.services, s.selectorSources.version
	services := map[*serviceSelector]int{}
	for ref, selector := range x.byName {
		services[selector]++
		if selector.namespace != ref.Namespace {
			v.Add("service %v has a selector of namespace %s", ref, selector.namespace)
		}
		if services[selector] == 1 {
			x.audit(v, selector)
		}
	}
	for set, selector := range x.bySet {
		if selector.serviceSet != set || services[selector] == 0 || services[selector] != selector.services {
			v.Add("selector %s of %d services is listed as %+v, recounted %d services", selector.text, selector.services, set, services[selector])
		}
	}
	listed := 0
	for label, l := range x.byLabel {
		if listed += len(l.selectors); len(l.selectors) == 0 || l.version > version {
			v.Add("%d selectors of services are listed under %+v in version %d of %d", len(l.selectors), label, l.version, version)
		}
	}
	if listed != len(services) || len(x.bySet) != len(services) {
		v.Add("%d selectors of services are listed by label and %d by text, there are %d", listed, len(x.bySet), len(services))
	}
	for ref, c := range s.selectorSources.controllers {
		if c.version > version || c.selector == nil && len(c.labels) == 0 {
			v.Add("controller %v in version %d of %d has the selector %v and the labels %v", ref, c.version, version, c.selector, c.labels)
		}
	}
}

// audit checks that a selector is listed under one of its labels, at its position, and
// under its text.
func (x *services) audit(v *audit.Violations, s *serviceSelector) {
	l := x.byLabel[s.under]
	if l == nil || s.at >= len(l.selectors) || l.selectors[s.at] != s {
		v.Add("selector %s is not at position %d under %+v", s.text, s.at, s.under)
	}
	if value, ok := s.labels[s.under.Key]; !ok || value != s.under.Value || s.under.namespace != s.namespace {
		v.Add("selector %s of namespace %s is listed under %+v", s.text, s.namespace, s.under)
	}
	if len(s.labels) == 0 || s.text != string(model.AppendLabels(nil, s.labels)) || x.bySet[s.serviceSet] != s {
		v.Add("selector %v is not listed under its text %s", s.labels, s.text)
	}
}
