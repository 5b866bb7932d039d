// Command move copies the module sigs.k8s.io/scheduler-plugins from the module cache and
// ports the copy from Kubernetes 1.35 to 1.37. The edits below are the whole difference.
// Both schedulers are built with the copy. A go.mod and an overlay replace the module
// with the copy, for go build -modfile and -overlay.
//
// It takes the output folder, owns it, and rewrites it. It never changes anything
// beyond the edits below.
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
	// version is the newest version on the module proxy.
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

// edits are the interface changes between 1.35 and 1.37, by affected file.
var edits = []edit{
	// A queue holds entities, which may be pod groups. An entity with a pod is
	// kube-scheduler's QueuedPodInfo, with a method for its pod.
	{coscheduling, "podInfo1, podInfo2 fwk.QueuedPodInfo) bool {", "entity1, entity2 fwk.QueuedEntityInfo) bool {\n" +
		holder + "\tpodInfo1, podInfo2 := entity1.(holder), entity2.(holder)"},
	{topological, "pInfo1, pInfo2 fwk.QueuedPodInfo) bool {", "entity1, entity2 fwk.QueuedEntityInfo) bool {\n" +
		holder + "\tpInfo1, pInfo2 := entity1.(holder), entity2.(holder)"},
	{qos, "pInfo1, pInfo2 fwk.QueuedPodInfo) bool {", "entity1, entity2 fwk.QueuedEntityInfo) bool {\n" +
		"\tpInfo1, pInfo2 := entity1.(*framework.QueuedPodInfo), entity2.(*framework.QueuedPodInfo)"},
	{qos, `v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"`, `v1qos "k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"` +
		"\n\t" + `"k8s.io/kubernetes/pkg/scheduler/framework"`},
	// A preemption evaluator takes an executor and passes the victims of whole domains.
	{capacity, "\t" + preemptionImport, featureImport},
	{capacity, victims, domainVictims},
	// Removing a pod changes the list in place and leaves nil at its end.
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

// moved returns the text of a file for Kubernetes 1.37.
func moved(name, text string, done []bool) string {
	for i, e := range edits {
		if e.file == filepath.ToSlash(name) && strings.Contains(text, e.from) {
			text, done[i] = strings.ReplaceAll(text, e.from, e.to), true
		}
	}
	return text
}

// writeModule writes go.mod and go.sum with a replace directive for the copy. Their
// relative paths stay relative to this module. The overlay maps this module's files to
// them. It serves tools that run the go command without modules, where -modfile is an
// error.
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
