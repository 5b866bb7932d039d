package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/berth-scheduler/berth/"

// house says which packages of the project each package may import, outside its tests, and why. Imports point to words
// (model, reason, plan) or upstream along the path of a pod, never back. A folder stands for all packages below it.
var house = map[string]map[string]string{
	"internal/amount": {},
	"internal/model":  {"internal/amount": "amounts of pods and nodes saturate"},
	"internal/reason": {},
	"internal/slab":   {},
	"internal/shrink": {},
	"internal/audit":  {},
	"internal/price":  {},
	"internal/plan": {
		"internal/model":  "a decision is about a pod",
		"internal/price":  "a pod may be told what its turn cost",
		"internal/reason": "a rejection counts reasons",
	},
	"internal/kinds": {"internal/model": "it says what change a version of an object makes"},
	"internal/kube": {
		"internal/kinds":  "the table of what can be watched",
		"internal/model":  "a binding is about a pod",
		"internal/plan":   "it writes nominations",
		"internal/report": "it writes events in report's words",
		"internal/terse":  "watches and events that fail must not fill the log",
	},
	"internal/outside/clients": {"internal/terse": "informers and events that fail must not fill the log"},
	"internal/terse":           {},
	"internal/ingest": {
		"internal/kinds": "what change a version of an object makes",
		"internal/model": "it compiles objects into changes",
	},
	"internal/state": {
		"internal/audit":   "it checks its invariants",
		"internal/model":   "it keeps nodes and pods",
		"internal/plan":    "it assumes decisions",
		"internal/price":   "it has the meter of the work on it, and counts pods by domain",
		"internal/shrink":  "its maps give memory back when a cluster becomes smaller",
		"internal/storage": "it owns the store of volumes",
		"internal/devices": "it owns the store of devices",
	},
	"internal/devices": {
		"internal/audit":  "it checks its invariants",
		"internal/model":  "it keeps objects of devices",
		"internal/shrink": "its maps give memory back when a cluster becomes smaller",
	},
	"internal/storage": {
		"internal/amount": "capacities add up",
		"internal/audit":  "it checks its invariants",
		"internal/model":  "it keeps objects of storage",
		"internal/shrink": "its maps give memory back when a cluster becomes smaller",
	},
	"internal/queue": {
		"internal/audit":  "it checks its invariants",
		"internal/model":  "pods wait in it",
		"internal/plan":   "it gives work and settles decisions",
		"internal/price":  "namespaces are charged what their turns cost",
		"internal/slab":   "works of one pod are allocated many at a time",
		"internal/state":  "a delta wakes pods; plugins read it at PreEnqueue",
		"internal/plugin": "it asks plugins at PreEnqueue, QueueSort and EnqueueExtensions",
	},
	"internal/plugin": {
		"internal/model":  "plugins judge pods",
		"internal/plan":   "what plugins reserve and evict is part of a decision",
		"internal/reason": "a verdict is a reason code",
		"internal/state":  "plugins read views of the state",
	},
	"internal/plugins": {
		"internal/plugin":  "they implement it",
		"internal/model":   "needs are of pods and nodes",
		"internal/reason":  "a verdict is a reason code",
		"internal/state":   "they read the view of a node",
		"internal/storage": "a view gives the store of volumes",
	},
	"internal/plugins/defaultpreemption": {
		"internal/engine/preempt": "it searches for victims",
		"internal/model":          "it registers for events",
		"internal/plan":           "evictions and nominations are a part of a decision",
		"internal/plugin":         "it implements it",
		"internal/state":          "it reads who is nominated",
	},
	"internal/plugins/noderesourcesfit": {
		"internal/amount":    "scores are shares of amounts",
		"internal/allocator": "it counts devices that stand for a resource",
		"internal/devices":   "classes say which do",
		"internal/plugin":    "it implements it",
		"internal/model":     "needs are of pods and nodes",
		"internal/reason":    "a verdict is a reason code",
		"internal/shape":     "it rates utilization by a shape",
		"internal/state":     "it reads the view of a node",
	},
	"internal/plugins/noderesourcesbalancedallocation": {
		"internal/amount":    "scores are shares of amounts",
		"internal/allocator": "it counts devices that stand for a resource",
		"internal/devices":   "classes say which do",
		"internal/plugin":    "it implements it",
		"internal/model":     "needs are of pods and nodes",
		"internal/state":     "it reads the view of a node",
	},
	"internal/allocator": {
		"internal/devices": "it counts the devices of the store",
		"internal/model":   "resources are those of pods, and classes are compiled",
		"internal/price":   "it counts the work of searches",
		"internal/state":   "counts follow the devices that nodes share",
	},
	"internal/plugins/dynamicresources": {
		"internal/amount":    "requests of extended resources become counts of devices",
		"internal/plugin":    "it implements it",
		"internal/allocator": "it searches for devices",
		"internal/devices":   "it reads what is allocated, and promises devices",
		"internal/model":     "needs are of pods and nodes",
		"internal/plan":      "it holds devices, and makes steps",
		"internal/price":     "searches have the budget of the turn",
		"internal/reason":    "a verdict is a reason code",
		"internal/state":     "it reads the view of a node",
	},
	"internal/plugins/gangscheduling": {
		"internal/model": "it looks at groups",
		"internal/plan":  "Permit is about a placement",
		"internal/state": "Permit may read the state",
	},
	"internal/plugins/volumebinding": {
		"internal/amount":  "claims of a pod draw from one capacity",
		"internal/plugin":  "it implements it",
		"internal/model":   "needs are of pods and nodes",
		"internal/plan":    "it holds volumes, and makes steps",
		"internal/reason":  "a verdict is a reason code",
		"internal/shape":   "it rates utilization by a shape",
		"internal/state":   "it reads the view of a node",
		"internal/storage": "it reads what is free",
	},
	"internal/plugins/podtopologyspread": {
		"internal/plugin":                  "it implements it",
		"internal/plugins/nodeaffinity":    "nodeAffinityPolicy asks what this plugin asks",
		"internal/plugins/tainttoleration": "nodeTaintsPolicy asks what this plugin asks",
		"internal/model":                   "needs are of pods and nodes",
		"internal/reason":                  "a verdict is a reason code",
		"internal/state":                   "it reads tallies",
	},
	"internal/engine": {
		"internal/audit":  "it checks its invariants",
		"internal/model":  "needs name columns",
		"internal/plan":   "it turns work into decisions",
		"internal/plugin": "the contract of plugins",
		"internal/price":  "it counts what decisions cost",
		"internal/reason": "columns hold codes",
		"internal/slab":   "decisions with one placement are allocated many at a time",
		"internal/state":  "it reads nodes and the journal",
	},
	"internal/engine/rank": {},
	"internal/engine/preempt": {
		"internal/amount":      "it bounds how much is short",
		"internal/engine/rank": "a tournament has the node that is to be tried next",
		"internal/model":       "victims are pods",
		"internal/plan":        "where nothing helps it says why, as a rejection",
		"internal/plugin":      "it searches in a plugin's cycle",
		"internal/reason":      "a rejection counts reasons",
		"internal/state":       "it tries evictions on drafts",
	},
	"internal/engine/group": {
		"internal/engine": "it asks about one member after another",
		"internal/model":  "members are pods",
		"internal/plan":   "it turns work into the decision about a group",
		"internal/plugin": "profiles say which plugins have a say about groups",
		"internal/price":  "an attempt that costs too much for one round goes on in another",
		"internal/report": "the error of a member is put into words",
		"internal/state":  "it assumes members on their nodes",
	},
	"internal/outside/extender": {
		"internal/commit": "binding by an extender is a call of a step",
		"internal/model":  "placements are of pods",
		"internal/plan":   "binding by an extender is a step",
		"internal/plugin": "it implements extenders",
		"internal/state":  "steps are made in a view",
		"internal/terse":  "extenders that fail must not fill the log",
	},
	"internal/report": {
		"internal/model":  "a report is about a pod",
		"internal/plan":   "it words decisions",
		"internal/price":  "an event tells what a turn cost",
		"internal/reason": "a rejection in Permit counts one reason",
	},
	"internal/commit": {
		"internal/audit":  "its invariants are audited",
		"internal/kinds":  "writes are answered with objects",
		"internal/report": "it writes reports, and words failed bindings",
		"internal/model":  "outcomes go back as changes",
		"internal/plugin": "how a pod is bound, the Bind plugin says",
		"internal/plan":   "it carries out decisions",
		"internal/terse":  "writes that fail must not fill the log",
	},
	"internal/loop": {
		"internal/audit":        "it checks that state and queue agree",
		"internal/engine":       "the spine: decide",
		"internal/engine/group": "the spine: decide about a pod group, and measure its domain placements",
		"internal/model":        "the spine: changes",
		"internal/plugin":       "plugins know when a wait is over",
		"internal/plan":         "the spine: decisions",
		"internal/price":        "each turn has a budget, and its price",
		"internal/queue":        "the spine: whose turn it is",
		"internal/report":       "the condition of a pod group is written in report's words, with a decision about its members",
		"internal/state":        "the spine: what exists",
	},
	"internal/history": {
		"internal/engine": "it asks what a decision came from",
		"internal/loop":   "it observes rounds, and witnesses decisions",
		"internal/model":  "pods are asked about by key",
		"internal/plan":   "it keeps decisions",
		"internal/queue":  "it asks who waits where",
		"internal/state":  "it asks who is on which node",
	},
	"internal/metrics": {
		"internal/commit":                   "it observes what is written",
		"internal/engine":                   "it measures the phases of decisions",
		"internal/loop":                     "it observes rounds",
		"internal/plan":                     "what it observes is about decisions",
		"internal/price":                    "it counts what turns cost, by the kind of work",
		"internal/plugins/defaultbinder":    "bindings are this plugin's",
		"internal/plugins/volumebinding":    "errors of this plugin are counted",
		"internal/plugins/dynamicresources": "it tells apart how waits for devices end",
		"internal/queue":                    "it counts who waits where",
	},
	"internal/trace": {
		"internal/commit": "it observes bindings",
		"internal/model":  "requests of an eviction are found by its preemptor",
		"internal/report": "spans say what events say",
		"internal/plan":   "spans are about decisions",
	},
	"framework": {
		"internal/amount": "resources of plugins from outside saturate, too",
		"internal/model":  "what pods occupy is worked out in one place",
	},
	"framework/testing": {
		"framework":                  "factories have one type",
		"internal/config":            "its scheduler has a configuration",
		"internal/kinds":             "which objects scheduling reads",
		"internal/model":             "objects have references",
		"internal/plan":              "it shows decisions",
		"internal/simulate":          "it runs the real loop on an in-memory cluster",
		"internal/outside/framework": "plugins reach the bindings of the simulation",
		"internal/outside/host":      "it runs plugins",
	},
	"internal/outside/framework": {
		"framework":       "plugins use its CycleState and lists",
		"internal/commit": "what it does in a binding are commit's calls; pods wait there",
		"internal/kinds":  "which kinds raise the events that plugins register for",
		"internal/model":  "plugins are about pods and events",
		"internal/plan":   "it makes steps",
		"internal/plugin": "it implements the contract of plugins from outside",
		"internal/reason": "verdicts are codes",
		"internal/state":  "it reads views, and tries plugins' changes on drafts",
	},
	"framework/preemption": {"framework": "it words why nothing helps, and writes as plugins do"},
	"internal/outside/host": {
		"framework":                  "plugins get values of types that a program may replace",
		"internal/config":            "it implements the host of plugins",
		"internal/model":             "pods have keys",
		"internal/outside/framework": "it makes a Runtime for each profile",
		"internal/plugin":            "it tells adapters by the point that they are for",
	},
	"internal/outside/framework/snapshot": {
		"framework":        "what it shows are NodeInfos",
		"internal/devices": "it shows devices and claims",
		"internal/model":   "it follows aspects of nodes",
		"internal/state":   "it follows the journal",
	},
	"deploy": {},
	"deploy/helm/test/generate": {
		"deploy/helm/test/chart": "it writes the files that are made of the chart",
	},
	"internal/feature": {},
	"internal/shape":   {},
	"internal/server":  {},
	"internal/config": {
		"internal/allocator":        "gates choose its features",
		"framework":                 "factories have one type",
		"internal/plugin":           "it builds profiles",
		"internal/feature":          "gates choose plugins and variants",
		"internal/ingest":           "it says how pods of each profile are compiled",
		"internal/model":            "rules are about pods",
		"internal/outside/extender": "it builds extenders",
		"internal/plugins":          "it is the one place that knows them all",
		"internal/shape":            "it checks arguments",
		"internal/queue":            "it builds the queue's rules",
	},
	"internal/manifest": {"internal/spelling": "a field that is not known may be one misspelt"},
	"internal/workload": {
		"internal/kinds":    "a pod that has ended does not count for its controller",
		"internal/manifest": "workloads and their pods are of a cluster read from files",
	},
	"internal/live": {
		"internal/kinds":    "which resources the kinds have, and what is read of their objects",
		"internal/manifest": "what it reads is a cluster, as one from files is",
		"internal/model":    "a configuration says which kinds its plugins read",
	},
	"internal/preflight": {
		"internal/config":   "it says what of a configuration has no counterpart",
		"internal/kinds":    "which resources the kinds have",
		"internal/manifest": "the pods that would notice are in a cluster that was read",
		"internal/model":    "a configuration says which kinds its plugins read",
	},
	"internal/spelling":   {},
	"internal/mutate":     {},
	"internal/picture":    {},
	"internal/disruption": {"internal/model": "it finds budgets by the labels that a selector demands"},
	"internal/simulate": {
		"internal/amount":     "it sums what nodes have in use",
		"internal/adviser":    "it puts a loop together",
		"internal/commit":     "what is to be written, and again, it decides",
		"internal/config":     "a simulation runs the configured profiles",
		"internal/disruption": "it keeps the status of budgets",
		"internal/engine":     "it puts a loop together",
		"internal/report":     "it keeps what would have been written",
		"internal/ingest":     "its cluster is watched through ingest",
		"internal/kinds":      "it watches the kinds of the table",
		"internal/kube":       "what informers deliver goes through the handlers of the real watch",
		"internal/loop":       "it runs the real loop",
		"internal/manifest":   "it starts from a cluster read from files",
		"internal/model":      "it answers bindings",
		"internal/plugin":     "profiles say which pods are not tried",
		"internal/plan":       "it carries out decisions in memory",
		"internal/queue":      "it puts a loop together",
		"internal/state":      "it audits what the loop believes",
	},
	"internal/soak": {
		"internal/config":   "its scheduler has the default configuration",
		"internal/loop":     "it observes rounds",
		"internal/metrics":  "it counts series",
		"internal/picture":  "it draws its figures",
		"internal/simulate": "it runs the real loop on a virtual clock",
	},
	"internal/soak/world": {
		"internal/commit":   "bindings fail at times",
		"internal/model":    "pods have keys",
		"internal/simulate": "things happen in a simulated cluster",
	},
	"internal/advice": {
		"internal/amount":                    "it lowers requests",
		"internal/engine":                    "each change is decided about again",
		"internal/ingest":                    "what is changed is compiled as it is for the loop",
		"internal/kinds":                     "objects are put into the state and taken back by reference",
		"internal/model":                     "victims are pods",
		"internal/plan":                      "it makes work, and reads decisions",
		"internal/plugin":                    "profiles say which pods are not tried",
		"internal/plugins/interpodaffinity":  "it knows what a label of a node changes",
		"internal/plugins/nodeaffinity":      "it knows what a label of a node changes",
		"internal/plugins/nodeunschedulable": "it knows what uncordoning a node changes",
		"internal/plugins/podtopologyspread": "it knows what a label of a node changes",
		"internal/plugins/tainttoleration":   "it knows what uncordoning a node changes",
		"internal/spelling":                  "a label that a pod demands may be one misspelt",
		"internal/state":                     "changes are made in it, and taken back",
	},
	"internal/adviser": {
		"internal/amount": "pods alike request the same amounts",
		"internal/advice": "it looks for what would help",
		"internal/engine": "each change is decided about, and pods of one shape share what was found",
		"internal/ingest": "changed pods are compiled as they are for the loop",
		"internal/model":  "what helps is tried with a compiled pod",
		"internal/plan":   "it reads decisions",
		"internal/state":  "what would help depends on it",
	},
	"internal/attribution": {
		"internal/engine":       "each set of differences is decided about again",
		"internal/engine/group": "with each, a pod group is decided about as a whole",
		"internal/ingest":       "what differs is compiled as it is for the loop",
		"internal/kinds":        "it knows what scheduling reads of an object",
		"internal/model":        "pods and objects have references",
		"internal/plan":         "it makes work, and reads decisions",
		"internal/plugin":       "profiles say which pods are not tried",
		"internal/report":       "it says what the event would say",
		"internal/state":        "differences are made in it, and taken back",
	},
	"internal/explain": {
		"internal/attribution":                "what has changed the answer is found there",
		"internal/advice":                     "what would help is found there",
		"internal/config":                     "pods are judged by the configured profiles",
		"internal/disruption":                 "budgets that were not read from a cluster have no status yet",
		"internal/engine":                     "it asks the engine",
		"internal/engine/group":               "it has pod groups decided about",
		"internal/history":                    "what the running scheduler knows of a pod is part of its explanation",
		"internal/spelling":                   "the group that a pod names may be one misspelt",
		"internal/report":                     "it says what the event would say",
		"internal/ingest":                     "objects are compiled as they are for the loop",
		"internal/kinds":                      "it leaves out objects of kinds that no plugin reads",
		"internal/model":                      "pending pods are asked about",
		"internal/plugin":                     "profiles say which pods are not tried",
		"internal/plan":                       "it turns plan's answers into text",
		"internal/plugins/dynamicresources":   "it knows the pods that this plugin holds back",
		"internal/plugins/nodevolumelimits":   "it names what is in the way for this plugin",
		"internal/plugins/volumebinding":      "it names what is in the way for this plugin",
		"internal/plugins/volumerestrictions": "it names what is in the way for this plugin",
		"internal/plugins/volumezone":         "it names what is in the way for this plugin",
		"internal/plugins/noderesourcesfit":   "it puts numbers to the rejections of this plugin",
		"internal/reason":                     "rejections have kube-scheduler's names",
		"internal/state":                      "nodes and placed pods are in it",
		"internal/storage":                    "it looks up the volumes that are in the way",
	},
	"internal/shadow": {
		"internal/config": "bindings are judged by the configured profiles",
		"internal/engine": "it asks the engine",
		"internal/ingest": "objects are compiled as they are for the loop",
		"internal/kinds":  "it undoes changes of objects of every kind",
		"internal/model":  "it takes in changes",
		"internal/plugin": "profiles say which pods are not tried",
		"internal/state":  "it asks about the state before a binding",
	},
	"internal/build":    {},
	"internal/inmemory": {},
	"internal/elements": {},
	"internal/oracle":   {},
	"internal/e2e":      {},
	"examples/trial":    {},
	"internal/scenario": {
		"internal/commit":   "the requests of an eviction fail by kind",
		"internal/config":   "a scenario may bring a configuration",
		"internal/feature":  "a scenario may set gates",
		"internal/kinds":    "which objects have a namespace",
		"internal/manifest": "a pod may be written out in YAML",
		"internal/model":    "it finds pods by key",
		"internal/plan":     "it compares decisions",
		"internal/simulate": "scenarios run on the in-memory cluster",
	},
	"app": {
		"framework":        "factories have one type",
		"internal/adviser": "it puts the scheduler together",
		"internal/commit":  "it puts the scheduler together",
		"internal/config":  "it puts the scheduler together",
		"internal/engine":  "it puts the scheduler together",
		"internal/history": "it puts the scheduler together, and answers questions",
		"internal/ingest":  "it puts the scheduler together",
		"internal/kinds":   "a leader's writes are answered with objects",
		"internal/kube":    "it puts the scheduler together",
		"internal/outside": "it puts the scheduler together",
		"internal/loop":    "it puts the scheduler together",
		"internal/metrics": "it puts the scheduler together",
		"internal/queue":   "it puts the scheduler together",
		"internal/trace":   "it puts the scheduler together",

		"internal/feature": "it puts the scheduler together",
		"internal/terse":   "malformed objects must not fill the log",
		"internal/server":  "it puts the scheduler together",
		"internal/model":   "a leader binds pods",
		"internal/report":  "it logs reports",
		"internal/plan":    "it logs decisions",
		"internal/state":   "it dumps what the loop holds",
	},
	"cmd/berth": {
		"app":                  "the scheduler command",
		"internal/explain":     "the explain command",
		"internal/advice":      "the explain command prints what would help",
		"internal/attribution": "the explain command prints what has changed the answer",
		"internal/config":      "simulate and explain read the scheduler's configuration",
		"internal/feature":     "simulate and explain take feature gates",
		"internal/history":     "explain reads what the running scheduler answers",
		"internal/model":       "which kinds of object the scheduler reads",
		"internal/live":        "explain, simulate and fit read a cluster from its API server",
		"internal/preflight":   "the preflight command",
		"internal/manifest":    "simulate and explain read clusters from files",
		"internal/workload":    "files have workloads, and the question is about their pods",
		"internal/simulate":    "the simulate command",
		"internal/spelling":    "the pod that is asked for may be one misspelt",
		"internal/kube":        "the shadow command watches a cluster",
		"internal/shadow":      "the shadow command",
		"internal/server":      "the shadow serves its metrics as the scheduler does, and explain asks the scheduler",
	},
}

// core are the packages that know no clock, no randomness, no client, no context, no logger and no metric. What they may
// never import, and what they may never call, comes with the reason.
var (
	core = []string{
		"internal/model", "internal/reason", "internal/plan", "internal/state", "internal/queue", "internal/engine",
		"internal/plugin", "internal/plugins", "internal/report", "internal/audit", "internal/price", "internal/amount",
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
		if entry.IsDir() && slices.Contains([]string{"compat", "devcluster", "parity", "tools", "sample-plugin", "gang-plugin", "testdata", ".git", ".cache", "bin"}, entry.Name()) {
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

// rowOf returns the row of the table that a folder falls under: its name, and what it allows.
func rowOf(folder string) (string, map[string]string, bool) {
	for ; folder != "."; folder = path.Dir(folder) {
		if row, ok := house[folder]; ok {
			return folder, row, true
		}
	}
	return "", nil, false
}

func TestImportsFollowTheHouse(t *testing.T) {
	for folder, parsed := range files(t) {
		_, row, ok := rowOf(folder)
		if !ok {
			t.Errorf("%s is not in the table of the house: say what it may import, and why", folder)
			continue
		}
		for _, file := range parsed {
			for _, name := range imports(t, file) {
				if name == "k8s.io/kubernetes" || strings.HasPrefix(name, "k8s.io/kubernetes/") {
					t.Errorf("%s imports %s: the product never depends on Kubernetes itself", folder, name)
				}
				to, own := strings.CutPrefix(name, module)
				if own && !allowed(row, folder, to) {
					t.Errorf("%s imports %s, which the table of the house does not allow", folder, to)
				}
			}
		}
	}
}

// TestHouseAllowsNoMoreThanIsUsed checks that every import that a row allows is used by a file of that row's folders.
func TestHouseAllowsNoMoreThanIsUsed(t *testing.T) {
	used := map[string][]string{} // by row: what its folders import
	for folder, parsed := range files(t) {
		row, _, ok := rowOf(folder)
		if !ok {
			continue // TestImportsFollowTheHouse reports it
		}
		imported := used[row] // the row has a folder, even if that imports nothing
		for _, file := range parsed {
			for _, name := range imports(t, file) {
				if to, own := strings.CutPrefix(name, module); own && !within(to, folder) && !testsOnly(folder) {
					imported = append(imported, to)
				}
			}
		}
		used[row] = imported
	}
	for row, mayImport := range house {
		imported, exists := used[row]
		if !exists {
			t.Errorf("the table of the house has a row for %s, and no folder falls under it: remove the row", row)
			continue
		}
		for parent := range mayImport {
			if !slices.ContainsFunc(imported, func(to string) bool { return within(to, parent) }) {
				t.Errorf("the table of the house allows %s to import %s, and no file does: remove the entry", row, parent)
			}
		}
	}
}

func allowed(row map[string]string, from, to string) bool {
	if strings.HasPrefix(to, from+"/") || testsOnly(to) && testsOnly(from) {
		return true
	}
	for parent := range row {
		if within(to, parent) {
			return true
		}
	}
	return testsOnly(from)
}

// testsOnly are packages that only tests import; they may look at everything.
func testsOnly(folder string) bool {
	return within(folder, "internal/oracle") || within(folder, "internal/plugins/plugintest") || within(folder, "internal/e2e") || within(folder, "examples/trial") ||
		within(folder, "internal/engine/enginetest") || within(folder, "internal/explain/explaintest") || within(folder, "internal/build") || within(folder, "internal/inmemory") || within(folder, "internal/elements")
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

func TestTestsOnlyPackagesStayOutOfTheProduct(t *testing.T) {
	for folder, parsed := range files(t) {
		for _, file := range parsed {
			for _, name := range imports(t, file) {
				if to, own := strings.CutPrefix(name, module); own && testsOnly(to) && !testsOnly(folder) {
					t.Errorf("%s imports %s, which is for tests only", folder, to)
				}
			}
		}
	}
}
