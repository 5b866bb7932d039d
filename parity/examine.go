package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/parity/internal/cases"
)

// examine decides the failed case again from fresh state, then shrinks and writes it as
// the flags demand.
func (f *failure) examine(o options, name string) error {
	tc := *f.example
	fresh, err := o.pair.Case(tc)
	if err != nil {
		return err
	}
	switch {
	case fresh.Failed == 0:
		f.note("the same state, read anew, makes no difference: the mistake is in what Berth keeps between decisions")
	case o.shrink:
		tc = cases.Shrink(tc, func(tc cases.Case) bool {
			r, err := o.pair.Case(tc)
			return err == nil && r.Failed > 0
		})
		small, err := o.pair.Case(tc)
		if err != nil {
			return err
		}
		f.note("a smaller cluster: %s, %s, %s", counted(len(tc.Nodes), "node"), counted(len(tc.Pods), "pod"), counted(len(tc.Others()), "other object"))
		for _, d := range small.Differences[:min(o.shown, len(small.Differences))] {
			f.note("there: %s", d)
		}
	}
	if o.folder == "" {
		return nil
	}
	cluster, err := write(filepath.Join(o.folder, fmt.Sprintf("%s-%d", name, f.Seed)), tc)
	if err != nil {
		return err
	}
	f.note("look: berth explain --snapshot %s/cluster.yaml --config %s/scheduler.yaml -o yaml", cluster, cluster)
	return nil
}

func (f *failure) note(format string, args ...any) {
	f.Notes = append(f.Notes, fmt.Sprintf(format, args...))
}

// write writes a case as files for "berth explain" and returns the folder.
func write(folder string, tc cases.Case) (string, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("write a cluster down: %w", err)
	}
	var all bytes.Buffer
	for _, o := range tc.Objects() {
		kinds, _, err := scheme.Scheme.ObjectKinds(o)
		if err != nil {
			return "", fmt.Errorf("write a cluster down: %w", err)
		}
		o = o.DeepCopyObject()
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
		text, err := yaml.Marshal(o)
		if err != nil {
			return "", fmt.Errorf("write a cluster down: %w", err)
		}
		fmt.Fprintf(&all, "---\n%s", text)
	}
	if err := os.WriteFile(filepath.Join(folder, "cluster.yaml"), all.Bytes(), 0o644); err != nil {
		return "", fmt.Errorf("write a cluster down: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "scheduler.yaml"), tc.Config, 0o644); err != nil {
		return "", fmt.Errorf("write a cluster down: %w", err)
	}
	return folder, nil
}
