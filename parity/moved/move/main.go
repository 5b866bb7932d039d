// Command move copies the module sigs.k8s.io/scheduler-plugins from the module cache and brings the copy from Kubernetes 1.35 to 1.37: the edits below are the whole
// difference, and both schedulers are built with the copy. It also writes a go.mod that has the copy in the module's place, for go build -modfile and -overlay.
//
// It takes the folder to write to. It owns that folder and writes it anew. What it changes is this file's table and nothing else.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const (
	module = "sigs.k8s.io/scheduler-plugins"
	// version is the newest that the module proxy has.
	version = "v0.35.4-devel"
)

// edit is a change of a file.
type edit struct{ file, from, to string }

const (
	coscheduling = "pkg/coscheduling/coscheduling.go"
	topological  = "pkg/networkaware/topologicalsort/topologicalsort.go"
	qos          = "pkg/qos/queue_sort.go"
	capacity     = "pkg/capacityscheduling/capacity_scheduling.go"
	toleration   = "pkg/preemptiontoleration/preemption_toleration.go"

	holder = "\ttype holder interface {\n\t\tfwk.QueuedEntityInfo\n\t\tGetPodInfo() fwk.PodInfo\n\t}\n"

	preemptionImport = `"k8s.io/kubernetes/pkg/scheduler/framework/preemption"`
	featureImport    = "\t" + `"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"` + "\n\t" + preemptionImport
	victims          = "nodeInfo fwk.NodeInfo,\n\tpdbs []*policy"
	domainVictims    = "nodeInfo fwk.NodeInfo,\n\t_ []*preemption.DomainVictim,\n\tpdbs []*policy"
	podsBefore       = "append([]fwk.PodInfo(nil), nodeInfo.GetPods()...)"
	noAsync          = "false, // enableAsyncPreemption"
)

// edits are what changed in the interfaces between 1.35 and 1.37, by the file that it matters to.
var edits = []edit{
	// A queue holds entities, which may be groups of pods; what holds a pod has a method for it,
	// and is kube-scheduler's QueuedPodInfo.
	{coscheduling, "podInfo1, podInfo2 fwk.QueuedPodInfo) bool {", "entity1, entity2 fwk.QueuedEntityInfo) bool {\n" +
		holder + "\tpodInfo1, podInfo2 := entity1.(holder), entity2.(holder)"},
	{topological, "pInfo1, pInfo2 fwk.QueuedPodInfo) bool {", "entity1, entity2 fwk.QueuedEntityInfo) bool {\n" +
		holder + "\tpInfo1, pInfo2 := entity1.(holder), entity2.(holder)"},
	{qos, "pInfo1, pInfo2 fwk.QueuedPodInfo) bool {", "entity1, entity2 fwk.QueuedEntityInfo) bool {\n" +
		"\tpInfo1, pInfo2 := entity1.(*framework.QueuedPodInfo), entity2.(*framework.QueuedPodInfo)"},
	{qos, `v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"`, `v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"` +
		"\n\t" + `"k8s.io/kubernetes/pkg/scheduler/framework"`},
	// An evaluator of preemption takes an executor, and passes the victims of whole domains.
	{capacity, "\t" + preemptionImport, featureImport},
	{capacity, victims, domainVictims},
	// The list of pods is changed in place when one is removed, and ends with nil then.
	{capacity, "for _, p := range nodeInfo.GetPods() {", "for _, p := range " + podsBefore + " {"},
	{capacity, noAsync, "preemption.NewExecutor(c.fh, feature.Features{}),"},
	{toleration, "\t" + preemptionImport, featureImport},
	{toleration, victims, domainVictims},
	{toleration, "for _, pi := range nodeInfo.GetPods() {", "for _, pi := range " + podsBefore + " {"},
	{toleration, noAsync, "preemption.NewExecutor(pl.fh, feature.Features{}),"},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: move FOLDER")
		os.Exit(2)
	}
	if err := move(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "move:", err)
		os.Exit(1)
	}
}

func move(to string) error {
	out, err := exec.Command("go", "mod", "download", "-json", module+"@"+version).Output()
	if err != nil {
		return fmt.Errorf("find %s: %w", module, err)
	}
	dir := regexp.MustCompile(`"Dir": "(.*)"`).FindSubmatch(out)
	if dir == nil {
		return fmt.Errorf("find %s: go mod download prints no folder:\n%s", module, out)
	}
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	done := make([]bool, len(edits))
	from := string(dir[1])
	for _, folder := range []string{"apis", "pkg"} {
		err = filepath.WalkDir(filepath.Join(from, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			name, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return write(filepath.Join(to, "scheduler-plugins", name), moved(name, string(text), done))
		})
		if err != nil {
			return err
		}
	}
	for i, ok := range done {
		if !ok {
			return fmt.Errorf("%s no longer has %q", edits[i].file, edits[i].from)
		}
	}
	for _, name := range []string{"go.mod", "LICENSE"} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		if err := write(filepath.Join(to, "scheduler-plugins", name), string(text)); err != nil {
			return err
		}
	}
	return writeModule(to)
}

// moved is the text of a file as it must be for Kubernetes 1.37.
func moved(name, text string, done []bool) string {
	for i, e := range edits {
		if e.file == filepath.ToSlash(name) && strings.Contains(text, e.from) {
			text, done[i] = strings.ReplaceAll(text, e.from, e.to), true
		}
	}
	return text
}

// writeModule writes a go.mod, and a go.sum beside it, that say where the copy is. The paths in it are still relative to this module. It also writes
// an overlay that has both in the place of this module's, for what also runs the go command without modules, where -modfile is a mistake.
func writeModule(to string) error {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	copied, err := filepath.Abs(filepath.Join(to, "scheduler-plugins"))
	if err != nil {
		return err
	}
	text = append(bytes.TrimSpace(text), fmt.Appendf(nil, "\n\nreplace %s => %s\n", module, copied)...)
	if err := write(filepath.Join(to, "go.mod"), string(text)); err != nil {
		return err
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		return err
	}
	if err := write(filepath.Join(to, "go.sum"), string(sums)); err != nil {
		return err
	}
	replaced := map[string]string{}
	for _, name := range []string{"go.mod", "go.sum"} {
		path, err := filepath.Abs(name)
		if err != nil {
			return err
		}
		replaced[path] = filepath.Join(filepath.Dir(copied), name)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	return write(filepath.Join(to, "overlay.json"), string(overlay))
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
