package devicefit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// constraint explains the first constraint of a claim that the free devices cannot meet.
// Each request has enough devices alone. Without such a constraint, several requests
// compete for the same devices.
func constraint(claim *resourcev1.ResourceClaim, requests []Request) string {
	for i := range claim.Spec.Devices.Constraints {
		c := &claim.Spec.Devices.Constraints[i]
		of := constrained(c, requests)
		needs := int64(0)
		for _, r := range of {
			needs += r.Needs
		}
		switch {
		case c.MatchAttribute != nil:
			if text := matching(of, string(*c.MatchAttribute), needs); text != "" {
				return text
			}
		case c.DistinctAttribute != nil:
			groups, without := grouped(of, string(*c.DistinctAttribute))
			if int64(len(groups)) < needs {
				return fmt.Sprintf("distinctAttribute %s needs %d devices with different values; the free devices have %d%s", *c.DistinctAttribute, needs, len(groups), withoutText(without))
			}
		}
	}
	if len(requests) > 1 {
		return "each request has devices, and not all of them together"
	}
	return ""
}

// constrained returns the requests that a constraint is about: all without names.
func constrained(c *resourcev1.DeviceConstraint, requests []Request) (of []*Request) {
	for i := range requests {
		main, _, _ := strings.Cut(requests[i].Name, "/")
		if len(c.Requests) == 0 || slices.Contains(c.Requests, requests[i].Name) || slices.Contains(c.Requests, main) {
			of = append(of, &requests[i])
		}
	}
	return of
}

// matching explains why no value of an attribute has enough free devices.
func matching(of []*Request, attribute string, needs int64) string {
	groups, without := grouped(of, attribute)
	most, best := 0, ""
	for _, value := range slices.Sorted(maps.Keys(groups)) {
		if n := len(groups[value]); int64(n) >= needs && enough(of, groups[value]) {
			return ""
		} else if n > most {
			most, best = n, value
		}
	}
	if most == 0 {
		return fmt.Sprintf("matchAttribute %s needs %d devices with one value; no free device has the attribute%s", attribute, needs, withoutText(without))
	}
	return fmt.Sprintf("matchAttribute %s needs %d devices with one value; at most %d have one (%s)%s", attribute, needs, most, best, withoutText(without))
}

func withoutText(without []string) string {
	if len(without) == 0 {
		return ""
	}
	return fmt.Sprintf("; without it: %s", few(without))
}

func few(names []string) string {
	if len(names) > 3 {
		return strings.Join(names[:3], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// grouped returns the names of the free devices by their value of an attribute, and those
// without the attribute.
func grouped(of []*Request, attribute string) (groups map[string]map[string]bool, without []string) {
	domain, name, _ := strings.Cut(attribute, "/")
	groups = map[string]map[string]bool{}
	for _, r := range of {
		for _, d := range r.free {
			a, ok := attributeOf(d, domain, name)
			if !ok {
				if !slices.Contains(without, d.spec.Name) {
					without = append(without, d.spec.Name)
				}
				continue
			}
			for _, value := range valuesOf(&a) {
				if groups[value] == nil {
					groups[value] = map[string]bool{}
				}
				groups[value][d.id.String()] = true
			}
		}
	}
	return groups, without
}

// enough reports whether each request has enough free devices in a group.
func enough(of []*Request, group map[string]bool) bool {
	for _, r := range of {
		n := int64(0)
		for _, d := range r.free {
			if group[d.id.String()] {
				n++
			}
		}
		if n < r.Needs {
			return false
		}
	}
	return true
}

// valuesOf returns the value of an attribute, or all values of a list.
func valuesOf(a *resourcev1.DeviceAttribute) (all []string) {
	if text := literalOf(a); text != "" {
		return []string{text}
	}
	for _, v := range a.IntValues {
		all = append(all, fmt.Sprint(v))
	}
	for _, v := range a.BoolValues {
		all = append(all, fmt.Sprint(v))
	}
	for _, v := range a.StringValues {
		all = append(all, fmt.Sprintf("%q", v))
	}
	for _, v := range a.VersionValues {
		all = append(all, fmt.Sprintf("semver(%q)", v))
	}
	return all
}

func valuesText(a *resourcev1.DeviceAttribute) string { return strings.Join(valuesOf(a), ", ") }
