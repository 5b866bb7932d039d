package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-scheduler/berth/internal/answers/shadow"
)

// snapshots writes the clusters of disagreements as files for "berth explain --snapshot".
// It keeps the first error.
type snapshots struct {
	folder string
	err    error
}

// newSnapshots creates the folder if it does not exist.
func newSnapshots(folder string) (*snapshots, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	return &snapshots{folder: folder}, nil
}

// keep writes the cluster of one disagreement. It returns the file's name, or "" after an
// error.
func (s *snapshots) keep(d *shadow.Decision, objects []runtime.Object) string {
	if s.err != nil {
		return ""
	}
	name := fmt.Sprintf("%s-%s-%s.json", d.Time.UTC().Format("20060102T150405.000000000"), d.Verdict, strings.ReplaceAll(d.Pod, "/", "-"))
	file := filepath.Join(s.folder, name)
	if err := writeCluster(file, objects); err != nil {
		s.err = fmt.Errorf("--disagreements %q: write %s: %w", s.folder, name, err)
		return ""
	}
	return file
}

// writeCluster writes objects as a list, which appears complete.
func writeCluster(file string, objects []runtime.Object) error {
	return writeFile(file, func(w io.Writer) error { return writeObjects(w, objects, nil) })
}

// writeObjects writes objects as a list. change, if set, changes the text of each.
func writeObjects(to io.Writer, objects []runtime.Object, change func(text []byte) ([]byte, error)) error {
	w := bufio.NewWriter(to) // keeps the first error
	_, _ = w.WriteString(`{"apiVersion": "v1", "kind": "List", "items": [`)
	for i, object := range objects {
		if i > 0 {
			_ = w.WriteByte(',')
		}
		_ = w.WriteByte('\n')
		if err := writeObject(w, object, change); err != nil {
			return err
		}
	}
	_, _ = w.WriteString("\n]}\n")
	return w.Flush()
}

// writeObject writes an object with its kind, which objects from a watch lack.
func writeObject(w *bufio.Writer, object runtime.Object, change func(text []byte) ([]byte, error)) error {
	text, err := json.Marshal(object)
	if err == nil && change != nil {
		text, err = change(text)
	}
	if err != nil {
		return err
	}
	if object.GetObjectKind().GroupVersionKind().Empty() {
		of, _, err := scheme.Scheme.ObjectKinds(object)
		if err != nil {
			return err
		}
		version, kind := of[0].ToAPIVersionAndKind()
		fmt.Fprintf(w, `{"apiVersion": %q, "kind": %q, `, version, kind)
		text = text[1:] // every object has metadata
	}
	_, _ = w.Write(text)
	return nil
}
