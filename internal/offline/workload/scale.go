package workload

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
)

// Scale is a number of replicas for one workload.
type Scale struct {
	text            string
	kind            string // in lower case, or "" for any
	namespace, name string
	replicas        int32
}

// ParseScale reads NAMESPACE/NAME=N or KIND/NAMESPACE/NAME=N.
func ParseScale(text string) (Scale, error) {
	of, number, found := strings.Cut(text, "=")
	parts := strings.Split(of, "/")
	n, err := strconv.ParseInt(number, 10, 32)
	named := len(parts) >= 2 && len(parts) <= 3 && parts[0] != "" && parts[len(parts)-1] != ""
	if !found || !named || err != nil || n < 0 {
		return Scale{}, fmt.Errorf("--scale %q: must be NAMESPACE/NAME=N or KIND/NAMESPACE/NAME=N, such as shop/web=50", text)
	}
	s := Scale{text: text, namespace: parts[len(parts)-2], name: parts[len(parts)-1], replicas: int32(n)}
	if len(parts) == 3 {
		s.kind = strings.ToLower(parts[0])
	}
	return s, nil
}

// matches reports whether a workload is meant.
func (s *Scale) matches(w *item) bool {
	named := w.object.GetNamespace() == s.namespace && w.object.GetName() == s.name
	return named && (s.kind == "" || strings.ToLower(w.name) == s.kind)
}

// scale sets the replicas of the workloads that --scale names.
func (e *expansion) scale(all []*item) {
	for i := range e.Scale {
		s := &e.Scale[i]
		var meant, names []string
		for _, w := range all {
			names = append(names, w.String())
			if !s.matches(w) {
				continue
			}
			meant = append(meant, w.String())
			if !w.scalable {
				e.fail(w, "", "has no replicas, so --scale %s cannot be", s.text)
			}
			w.replicas = &s.replicas
		}
		switch {
		case len(meant) == 0:
			e.refuse(s, "the files have no such workload; they have "+orNone(names))
		case len(meant) > 1:
			kind, _, _ := strings.Cut(strings.ToLower(meant[0]), " ")
			e.refuse(s, fmt.Sprintf("is %s; write the kind before the name, as in %s/%s", strings.Join(meant, " and "), kind, s.text))
		}
	}
}

func (e *expansion) refuse(s *Scale, problem string) {
	e.errs = append(e.errs, &manifest.Error{File: "--scale " + s.text, Problem: problem})
}
