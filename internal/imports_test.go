package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/berth-scheduler/berth/"

// order lists the floors of the house from top to bottom. A package imports packages of
// its own floor and of the floors below it. A folder stands for all packages below it;
// the longest folder that matches counts. The order is the way of a pod, read from the
// bottom: values, the record of the cluster, decisions, the queue, the loop, and the
// programs around it.
var order = []string{
	"cmd/berth",
	"app",
	"framework/testing",
	"internal/offline",
	"internal/serve",
	"internal/kube",
	"internal/answers",
	"internal/loop",
	"internal/config",
	"internal/queue",
	"internal/external",
	"internal/commit",
	"internal/decide",
	"internal/plugin",
	"framework",
	"internal/cluster",
	"internal/model",
	"internal/kit",
}

// An arrow is an import: from a folder to a folder, each with all packages below it.
type arrow struct{ from, to string }

// forbidden lists arrows that point down and are wrong nevertheless, each with its
// reason.
var forbidden = map[arrow]string{
	{"internal/loop", "internal/config"}:                  "the loop takes what was built, not its configuration",
	{"internal/loop", "internal/commit"}:                  "effects are values; the app carries them to commit",
	{"internal/loop", "internal/external"}:                "a plugin from outside is a plugin like any other",
	{"internal/queue", "internal/decide"}:                 "plugins wake pods by the contract, not by their type",
	{"internal/queue", "internal/commit"}:                 "outcomes of writes come back through ingest",
	{"internal/external", "internal/decide"}:              "plugins from outside act by the contract",
	{"internal/kube", "internal/cluster/state"}:           "a client writes what plan says and reads no state",
	{"internal/serve", "internal/cluster"}:                "only the loop reads the state while it runs",
	{"internal/offline", "internal/serve"}:                "a cluster in memory has no port",
	{"internal/answers", "internal/commit"}:               "a question writes nothing",
	{"internal/answers", "internal/external"}:             "a question calls plugins by the contract",
	{"internal/decide/plugins", "internal/queue"}:         "a plugin judges; it knows no order of pods",
	{"internal/decide/engine", "internal/decide/plugins"}: "the engine asks plugins by the contract",
	{"internal/decide/plugins", "internal/decide/engine"}: "a plugin is asked, and asks nobody",
	{"internal/decide/engine", "internal/decide/gang"}:    "a group is made of turns, not the reverse",
	{"internal/cluster/state", "internal/cluster/kinds"}:  "the record takes changes, not objects of the API",
}

// core are the packages without a clock, randomness, client, context, logger or metric.
// Each forbidden import and each forbidden call has its reason.
var (
	core = []string{
		"internal/model", "internal/cluster/state", "internal/queue", "internal/plugin",
		"internal/decide/engine", "internal/decide/gang", "internal/decide/plugins",
		"internal/kit/audit", "internal/kit/price", "internal/kit/shrink",
	}
	neverImported = map[string]string{
		"context":                           "nothing in the core waits",
		"math/rand":                         "choices are made by a hash of seed, pod and node",
		"math/rand/v2":                      "choices are made by a hash of seed, pod and node",
		"hash/maphash":                      "its hashes differ from process to process",
		"os":                                "effects are returned as values",
		"net":                               "effects are returned as values",
		"net/http":                          "effects are returned as values",
		"log":                               "report says what happened",
		"log/slog":                          "report says what happened",
		"k8s.io/klog":                       "report says what happened",
		"k8s.io/client-go":                  "only kube talks to the API",
		"k8s.io/component-base":             "flags, logs and metrics belong to the rim",
		"github.com/prometheus":             "metrics belong to the rim",
		"k8s.io/apimachinery/pkg/util/wait": "nothing in the core waits",
	}
	neverCalled = map[string]string{
		"time.Now": "time is an argument", "time.Since": "time is an argument", "time.Until": "time is an argument",
		"time.Sleep": "nothing in the core waits", "time.After": "nothing in the core waits",
		"time.NewTimer": "nothing in the core waits", "time.NewTicker": "nothing in the core waits", "time.Tick": "nothing in the core waits",
	}
)

// files parses every product file, by folder relative to the module.
func files(t *testing.T) map[string][]*ast.File {
	t.Helper()
	parsed := map[string][]*ast.File{}
	set := token.NewFileSet()
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{"compat", "devcluster", "neighbours", "parity", "tools", "sample-plugin", "gang-plugin", "testdata", ".git", ".cache", "bin"}, entry.Name()) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(set, name, nil, 0)
		folder := path.Clean(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../"))
		parsed[folder] = append(parsed[folder], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func imports(t *testing.T, file *ast.File) []string {
	var all []string
	for _, spec := range file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
	return all
}

func within(folder, parent string) bool {
	return folder == parent || strings.HasPrefix(folder, parent+"/")
}

// floor returns the index in order of the floor that a folder is on, or -1.
func floor(folder string) int {
	at, length := -1, 0
	for i, f := range order {
		if within(folder, f) && len(f) > length {
			at, length = i, len(f)
		}
	}
	return at
}

// ownImports returns the product's packages that the files import.
func ownImports(t *testing.T, parsed []*ast.File) []string {
	var all []string
	for _, file := range parsed {
		for _, name := range imports(t, file) {
			if to, own := strings.CutPrefix(name, module); own {
				all = append(all, to)
			}
		}
	}
	return all
}

func TestImportsPointDown(t *testing.T) {
	for folder, parsed := range files(t) {
		if testsOnly(folder) || within(folder, "deploy") {
			continue
		}
		from := floor(folder)
		if from < 0 {
			t.Errorf("%s is on no floor of the house: add its folder to the order", folder)
			continue
		}
		for _, to := range ownImports(t, parsed) {
			switch at := floor(to); {
			case testsOnly(to):
				t.Errorf("%s imports %s, which is for tests only", folder, to)
			case at < 0:
				t.Errorf("%s imports %s, which is on no floor of the house", folder, to)
			case at < from:
				t.Errorf("%s imports %s: %s is above %s", folder, to, order[at], order[from])
			}
		}
	}
}

// TestFloorsExist checks that each folder of the order and of the forbidden arrows has
// packages.
func TestFloorsExist(t *testing.T) {
	folders := slices.Clone(order)
	for a := range forbidden {
		folders = append(folders, a.from, a.to)
	}
	parsed := files(t)
	for _, f := range folders {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(parsed)), func(folder string) bool { return within(folder, f) }) {
			t.Errorf("%s has no package: remove it", f)
		}
	}
}

func TestForbiddenImports(t *testing.T) {
	for folder, parsed := range files(t) {
		for _, to := range ownImports(t, parsed) {
			if testsOnly(folder) {
				continue
			}
			for a, why := range forbidden {
				if !within(folder, a.from) || !within(to, a.to) {
					continue
				}
				t.Errorf("%s imports %s: %s", folder, to, why)
			}
		}
	}
}

// TestKubernetesIsNotImported checks that the product never depends on Kubernetes itself.
func TestKubernetesIsNotImported(t *testing.T) {
	for folder, parsed := range files(t) {
		for _, file := range parsed {
			for _, name := range imports(t, file) {
				if within(name, "k8s.io/kubernetes") {
					t.Errorf("%s imports %s", folder, name)
				}
			}
		}
	}
}

// testsOnly reports whether the product never imports a package. Such a package may
// import all.
func testsOnly(folder string) bool {
	return within(folder, "internal/proof") || within(folder, "examples/trial")
}

func TestCoreIsPure(t *testing.T) {
	for folder, parsed := range files(t) {
		if testsOnly(folder) || !slices.ContainsFunc(core, func(c string) bool { return within(folder, c) }) {
			continue
		}
		for _, file := range parsed {
			for _, name := range imports(t, file) {
				for never, why := range neverImported {
					if within(name, never) && !(never == "net" && name != "net") {
						t.Errorf("%s imports %s: %s", folder, name, why)
					}
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok {
						if why, never := neverCalled[x.Name+"."+s.Sel.Name]; never {
							t.Errorf("%s calls %s.%s: %s", folder, x.Name, s.Sel.Name, why)
						}
					}
				}
				return true
			})
		}
	}
}
