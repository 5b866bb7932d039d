package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Report is a file of the folder: an operator's report that can be played again.
type Report struct {
	// Name is the file's name without its extension, and also the report's namespace.
	Name string `json:"-"`
	// Issue is the upstream issue, as in kubernetes/kubernetes#141954, or empty.
	Issue string `json:"issue,omitempty"`
	// Area is the plugin or the part of the scheduler. Right is the right result in a
	// sentence.
	Area  string `json:"area"`
	Right string `json:"right"`
	// Source is the origin of the report, or the rule that makes the result right.
	Source string `json:"source"`
	// Alone reports run one after another in an empty cluster. Others run in parallel:
	// their pods select their own nodes. Every new node that it selects wakes a pod that
	// NodeAffinity rejected on other nodes.
	Alone bool `json:"alone,omitempty"`
	// Reports of one Lane run one after another, in parallel with other lanes. Reports
	// need a common Lane if a hint of kube-scheduler wakes all pods of a plugin, whatever
	// object has changed: their changes would wake each other's pods.
	Lane string `json:"lane,omitempty"`
	// Profile is a profile of the scheduler's configuration, for the pods of this report.
	Profile map[string]any `json:"profile,omitempty"`
	Steps   []Step         `json:"steps"`
}

// Step executes its one field that is set.
type Step struct {
	Create []json.RawMessage `json:"create,omitempty"`
	Patch  *Patch            `json:"patch,omitempty"`
	Delete *Target           `json:"delete,omitempty"`
	Expect *Expectation      `json:"expect,omitempty"`
}

// Target is an object of the report's namespace, or of the cluster.
type Target struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Namespace is another namespace than the report's.
	Namespace string `json:"namespace,omitempty"`
	// Grace is the grace period of a deletion, in seconds.
	Grace int64 `json:"grace,omitempty"`
}

// Patch merges a part of an object, or of its status.
type Patch struct {
	Target
	Status bool            `json:"status,omitempty"`
	Merge  json.RawMessage `json:"merge"`
}

// Expectation is a state of pods and claims that must be reached in time.
type Expectation struct {
	// Within is the time limit in seconds, 8 by default.
	Within int `json:"within,omitempty"`
	// Bound are pods with their right nodes; an empty list means any node.
	Bound map[string][]string `json:"bound,omitempty"`
	// Pending are pods that are rejected, with a part of the message.
	Pending map[string]string `json:"pending,omitempty"`
	// Gone are pods that are preempted.
	Gone []string `json:"gone,omitempty"`
	// Selected are claims with the node that the scheduler selected for their volume.
	Selected map[string]string `json:"selected,omitempty"`
}

// usualSeconds is longer than an attempt and a backoff of a second on a busy machine.
const usualSeconds = 8

func (e *Expectation) within() time.Duration {
	if e.Within == 0 {
		return usualSeconds * time.Second
	}
	return time.Duration(e.Within) * time.Second
}

// load reads the reports of a folder, by name.
func load(folder string) ([]*Report, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	reports := make([]*Report, 0, len(files))
	for _, file := range files {
		r, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("read report %s: %w", file, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

func read(file string) (*Report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &Report{Name: strings.TrimSuffix(filepath.Base(file), ".yaml")}
	if err := yaml.UnmarshalStrict(text, r); err != nil {
		return nil, err
	}
	return r, r.check()
}

func (r *Report) check() error {
	if r.Area == "" || r.Right == "" || r.Source == "" || len(r.Steps) == 0 {
		return errors.New("area, right, source and steps are required")
	}
	if _, number, ok := strings.Cut(r.Issue, "#"); r.Issue != "" && (!ok || number == "") {
		return fmt.Errorf("issue %q is not OWNER/NAME#NUMBER", r.Issue)
	}
	if r.Steps[0].Expect != nil {
		return errors.New("the first step sets the scene and expects nothing")
	}
	if r.Steps[len(r.Steps)-1].Expect == nil {
		return errors.New("the last step expects nothing")
	}
	for i, step := range r.Steps {
		if !step.single() {
			return fmt.Errorf("step %d does not do exactly one thing", i+1)
		}
	}
	return nil
}

// lane returns the report's lane, by default a lane of its own.
func (r *Report) lane() string {
	if r.Lane == "" {
		return r.Name
	}
	return r.Lane
}

func (s *Step) single() bool {
	n := 0
	for _, set := range []bool{len(s.Create) > 0, s.Patch != nil, s.Delete != nil, s.Expect != nil} {
		if set {
			n++
		}
	}
	return n == 1
}
