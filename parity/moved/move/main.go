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

// library is a module with plugins.
type library struct {
	module string
	// version is the newest that the module proxy serves.
	version string
	folder  string // of the copy
	// parts are the folders to copy; their tests are left out.
	parts []string
	edits []edit
	// plain leaves out the requirements of its go.mod.
	plain bool
}

// libraries are copied in this order.
var libraries = []library{
	{module: "sigs.k8s.io/scheduler-plugins", version: "v0.35.4-devel", folder: "scheduler-plugins", parts: []string{"apis", "pkg"}, edits: edits},
	// Its go.mod requires a version of kube-openapi that does not exist, and replaces it.
	{module: "github.com/koordinator-sh/koordinator", version: "v1.8.0", folder: "koordinator", parts: []string{
		"apis", "pkg/scheduler/apis", "pkg/scheduler/plugins/noderesourcefitplus", "pkg/scheduler/plugins/scarceresourceavoidance",
	}, edits: koordinatorEdits, plain: true},
}

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

// koordinatorEdits make room for scheduler-plugins in the same program: both modules
// register arguments of plugins named Coscheduling.
var koordinatorEdits = []edit{
	{"pkg/scheduler/apis/config/register.go", "\t\t&CoschedulingArgs{},\n", ""},
	{"pkg/scheduler/apis/config/v1/register.go", "\t\t&CoschedulingArgs{},\n", ""},
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
	if err := os.RemoveAll(to); err != nil {
		return err
	}
	for i := range libraries {
		if err := libraries[i].copyTo(filepath.Join(to, libraries[i].folder)); err != nil {
			return fmt.Errorf("copy %s: %w", libraries[i].module, err)
		}
	}
	return writeModule(to)
}

// copyTo writes the parts of a library with its edits, its license and a go.mod.
func (l *library) copyTo(to string) error {
	out, err := exec.Command("go", "mod", "download", "-json", l.module+"@"+l.version).Output()
	if err != nil {
		return fmt.Errorf("download it: %w", err)
	}
	dir := regexp.MustCompile(`"Dir": "(.*)"`).FindSubmatch(out)
	if dir == nil {
		return fmt.Errorf("go mod download prints no folder:\n%s", out)
	}
	from := string(dir[1])
	done := make([]bool, len(l.edits))
	for _, part := range l.parts {
		if err := l.copyPart(from, to, part, done); err != nil {
			return err
		}
	}
	for i, ok := range done {
		if !ok {
			return fmt.Errorf("%s no longer has %q", l.edits[i].file, l.edits[i].from)
		}
	}
	license, err := os.ReadFile(filepath.Join(from, "LICENSE"))
	if err != nil {
		return err
	}
	if err := write(filepath.Join(to, "LICENSE"), string(license)); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(from, "go.mod"))
	if err != nil {
		return err
	}
	if l.plain {
		text = fmt.Appendf(nil, "module %s\n\ngo 1.25.0\n", l.module)
	}
	return write(filepath.Join(to, "go.mod"), string(text))
}

// copyPart copies the Go files of a folder, and notes in done which edits were made.
func (l *library) copyPart(from, to, part string, done []bool) error {
	return filepath.WalkDir(filepath.Join(from, part), func(path string, entry fs.DirEntry, err error) error {
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
		return write(filepath.Join(to, name), l.moved(name, string(text), done))
	})
}

// moved is the text of a file with the edits.
func (l *library) moved(name, text string, done []bool) string {
	for i, e := range l.edits {
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
	folder, err := filepath.Abs(to)
	if err != nil {
		return err
	}
	text = append(bytes.TrimSpace(text), '\n')
	for _, l := range libraries {
		text = fmt.Appendf(text, "\nrequire %s %s\n\nreplace %s => %s\n", l.module, l.version, l.module, filepath.Join(folder, l.folder))
	}
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
		replaced[path] = filepath.Join(folder, name)
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
