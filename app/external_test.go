package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	apiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	configv1 "k8s.io/kube-scheduler/config/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/kube"
	"github.com/berth-scheduler/berth/internal/serve/metrics"
	"github.com/berth-scheduler/berth/internal/serve/server"
)

// plugged names the options of the schedulers that runAs runs, separated by blanks.
const plugged = "BERTH_TEST_PLUGGED"

// testFilter is an out-of-tree plugin that passes every node.
type testFilter struct{}

func (testFilter) Name() string { return "Mine" }
func (testFilter) Filter(context.Context, fwk.CycleState, *v1.Pod, fwk.NodeInfo) *fwk.Status {
	return nil
}

// testArgs are the arguments of a plugin.
type testArgs struct {
	metav1.TypeMeta `json:",inline"`
	Level           int `json:"level,omitempty"`
}

func (a *testArgs) DeepCopyObject() runtime.Object { b := *a; return &b }

func testOptions() []Option {
	mine := func(_ context.Context, args runtime.Object, _ fwk.Handle) (fwk.Plugin, error) {
		fmt.Fprintf(os.Stderr, "factory called with %T %v\n", args, args)
		return testFilter{}, nil
	}
	all := map[string]Option{
		"hangs":    WithPlugin("Hangs", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return hangs{}, nil }),
		"mine":     WithPlugin("Mine", mine),
		"built-in": WithPlugin("NodeName", mine),
		"fails": WithPlugin("Fails", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return nil, errors.New("no CRD")
		}),
		"says": WithPlugin("Says", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			log.Print("said by package log")
			return nil, errors.New("said")
		}),
		"panics":    WithPlugin("Panics", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { panic("oh") }),
		"nil":       WithPlugin("Nil", nil),
		"bad types": WithScheme(func(*runtime.Scheme) error { return errors.New("no types") }),
		"types": WithScheme(func(s *runtime.Scheme) error {
			s.AddKnownTypeWithName(configv1.SchemeGroupVersion.WithKind("MineArgs"), &testArgs{})
			s.AddTypeDefaultingFunc(&testArgs{}, func(object any) {
				if args := object.(*testArgs); args.Level == 0 {
					args.Level = 5
				}
			})
			return nil
		}),
	}
	var chosen []Option
	for name := range strings.SplitSeq(os.Getenv(plugged), ",") {
		if option, ok := all[name]; ok {
			chosen = append(chosen, option)
		}
	}
	return chosen
}

// Mistakes with out-of-tree plugins. A mistake with exit code 2 is also made under the
// name kube-scheduler.
func TestMistakesWithPlugins(t *testing.T) {
	const enabled = "profiles: [{plugins: {multiPoint: {enabled: [{name: %s}]}}}]\n"
	for _, test := range []struct {
		options, config string
		code            int // of the subcommand; as kube-scheduler it is always 1
		want            string
	}{
		{"mine,mine", "", 1, "a plugin named Mine already exists"},
		{"built-in", "", 1, "a plugin named NodeName already exists"},
		{"nil", "", 1, "the factory of plugin Nil is nil"},
		{"bad types", "", 1, "register types of plugin arguments (function 1 of 1): no types"},
		{"mine", fmt.Sprintf(enabled, "Other"), 2, `initializing profiles: creating profile for scheduler name default-scheduler: PreFilterPlugin "Other" does not exist`},
		{"", fmt.Sprintf(enabled, "Mine"), 2, `PreFilterPlugin "Mine" does not exist`},
		{"types,mine", "profiles: [{pluginConfig: [{name: Mine, args: {levels: 3}}]}]\n", 2, `decoding args for plugin Mine: strict decoding error: unknown field "levels"`},
		{"fails", fmt.Sprintf(enabled, "Fails"), 1, `initializing profiles: creating profile for scheduler name default-scheduler: initializing plugin "Fails": no CRD`},
		{"panics", fmt.Sprintf(enabled, "Panics"), 1, `initializing plugin "Panics": its factory panicked: oh`},
		{"mine", "profiles: [{plugins: {score: {enabled: [{name: Mine}]}}}]\n", 2, `plugin "Mine" does not extend ScorePlugin plugin`},
	} {
		t.Run(test.options+" "+test.config, func(t *testing.T) {
			args := []string{"--secure-port=0", "--leader-elect=false", "--kubeconfig", kubeconfig(t)}
			if test.config != "" {
				args = append(args, "--config", file(t, "scheduler.yaml", header+fmt.Sprintf("clientConnection: {kubeconfig: %q}\n", kubeconfig(t))+test.config))
			}
			for _, as := range []string{subcommand, standalone} {
				code := test.code
				if as == standalone {
					code = 1
					if test.options != "types,mine" {
						continue
					}
				}
				t.Setenv(plugged, test.options)
				got := runAs(t, as, args...)
				if got.code != code || !strings.Contains(unescaped(got.stderr), test.want) {
					t.Errorf("%s: exit code %d, want %d and %q:\n%s", as, got.code, code, test.want, got.stderr)
				}
			}
		})
	}
}

// The log lists the compiled-in plugins. Plugins' output through package log of the
// standard library is in the log, too, as in kube-scheduler.
func TestPluginsAreLogged(t *testing.T) {
	t.Setenv(plugged, "says,mine")
	access := kubeconfig(t)
	config := file(t, "scheduler.yaml", header+fmt.Sprintf("clientConnection: {kubeconfig: %q}\nprofiles: [{plugins: {multiPoint: {enabled: [{name: Says}]}}}]\n", access))
	for _, as := range []string{subcommand, standalone} {
		got := runAs(t, as, "--secure-port=0", "--leader-elect=false", "--config", config, "--logging-format=json")
		for _, want := range []string{`"msg":"Out-of-tree plugins are compiled in","v":0,"plugins":["Says","Mine"]}`, `"msg":"said by package log"`} {
			if strings.Count(got.stderr, want) != 1 {
				t.Errorf("%s: %s is not logged once:\n%s", as, want, got.stderr)
			}
		}
	}
}

// The configuration is written without calling a factory, with the plugin and its
// arguments.
func TestWriteConfigWithPlugins(t *testing.T) {
	for _, test := range []struct {
		options, config string
		want            []string
	}{
		{"mine", "{plugins: {score: {enabled: [{name: Mine, weight: 3}]}}, pluginConfig: [{name: Mine, args: {any: thing}}]}",
			[]string{"- args:\n      any: thing\n    name: Mine\n", "      - name: Mine\n        weight: 3\n"}},
		{"types,mine", "{plugins: {score: {enabled: [{name: Mine, weight: 3}]}}}",
			[]string{"- args:\n      apiVersion: kubescheduler.config.k8s.io/v1\n      kind: MineArgs\n      level: 5\n    name: Mine\n"}},
	} {
		t.Setenv(plugged, test.options)
		written := filepath.Join(t.TempDir(), "written.yaml")
		got := runAs(t, standalone, "--config", file(t, "scheduler.yaml", header+"profiles: ["+test.config+"]\n"), "--write-config-to", written)
		if got.code != 0 || strings.Contains(got.stderr, "factory called") {
			t.Errorf("%s: exit code %d:\n%s", test.options, got.code, got.stderr)
			continue
		}
		text, err := os.ReadFile(written)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(string(text), want) {
				t.Errorf("%s: %q is not in\n%s", test.options, want, text)
			}
		}
	}
}

// closing is a plugin that reports its end.
type closing struct {
	testFilter
	closed chan<- string
}

func (c closing) Close() error { c.closed <- "closed"; return nil }

// A factory gets a Handle that works before the first lists. The plugin is in the
// profile, and is closed at the end.
func TestExternalFromFactoryToClose(t *testing.T) {
	closed := make(chan string, 1)
	var handle fwk.Handle
	factory := func(_ context.Context, args runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		handle = h
		if h.ProfileName() != "mine" || h.ClientSet() == nil || h.EventRecorder() == nil || h.Parallelizer() == nil {
			return nil, errors.New("the handle lacks something")
		}
		if a, b := h.KubeConfig(), h.KubeConfig(); a == b || a.Host != "http://127.0.0.1:1" {
			return nil, fmt.Errorf("the access is not a copy, or to %s", a.Host)
		}
		if extenders := h.Extenders(); len(extenders) != 1 || extenders[0].Name() != "http://127.0.0.1:1/extend" {
			return nil, fmt.Errorf("the extenders are %v", extenders)
		}
		if nodes, err := h.SnapshotSharedLister().NodeInfos().List(); err != nil || len(nodes) != 0 {
			return nil, fmt.Errorf("%d nodes, %w", len(nodes), err)
		}
		if args == nil {
			return nil, errors.New("no arguments")
		}
		h.Activate(klog.Background(), map[string]*v1.Pod{"a": {}}) // the queue does not exist yet
		h.IterateOverWaitingPods(func(fwk.WaitingPod) {})
		return closing{closed: closed}, nil
	}
	added, err := config.NewExternal([]config.Registered{{Name: "Mine", Factory: factory}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := file(t, "scheduler.yaml", header+"profiles: [{schedulerName: mine, plugins: {multiPoint: {enabled: [{name: Mine}]}}, pluginConfig: [{name: Mine, args: {a: 1}}]}]\n"+
		"extenders: [{urlPrefix: \"http://127.0.0.1:1/extend\", filterVerb: filter}]\n")
	c, err := config.Read(config.Request{File: path, External: added, AskExtenders: true})
	if err != nil {
		t.Fatal(err)
	}
	access, err := kube.Access(kube.ClientConfig{Kubeconfig: kubeconfig(t)})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.Connect(access)
	if err != nil {
		t.Fatal(err)
	}
	o, full, err := newExternal(t.Context(), c, access, client, observers{metrics: &metrics.Metrics{}}, time.Minute, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := full.Profiles[0]
	if last := p.Filters[len(p.Filters)-1]; last.Name != "Mine" || p.External == nil || handle == nil {
		t.Errorf("the last filter is %s; plugins are run by %v", last.Name, p.External)
	}
	o.start()
	o.stop(klog.Background())
	if len(closed) != 1 {
		t.Error("the plugin was not closed")
	}

	// Without such a plugin, the parts are nil and can be started and stopped.
	c, err = config.Default()
	if err != nil {
		t.Fatal(err)
	}
	o, full, err = newExternal(t.Context(), c, access, client, observers{metrics: &metrics.Metrics{}}, time.Minute, nil)
	if o != nil || full != c || err != nil {
		t.Errorf("got %v, %v", o, err)
	}
	o.join(nil, nil)
	o.start()
	if err := o.sync(); err != nil {
		t.Error(err)
	}
	o.stop(klog.Background())
}

// hanging is a plugin with a call at the start that does not return.
type hanging struct{ testFilter }

func (hanging) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	<-ctx.Done()
	select {}
}

// hosted builds a plugin of a profile.
func hosted(t *testing.T, p fwk.Plugin, deadline time.Duration) (*external, *config.Config, error) {
	t.Helper()
	return hostedBy(t, func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return p, nil }, deadline)
}

// hostedBy builds the plugin of a profile with a factory.
func hostedBy(t *testing.T, factory PluginFactory, deadline time.Duration) (*external, *config.Config, error) {
	t.Helper()
	added, err := config.NewExternal([]config.Registered{{Name: "Mine", Factory: factory}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Read(config.Request{File: file(t, "scheduler.yaml", header+"profiles: [{plugins: {multiPoint: {enabled: [{name: Mine}]}}}]\n"), External: added})
	if err != nil {
		t.Fatal(err)
	}
	access, err := kube.Access(kube.ClientConfig{Kubeconfig: kubeconfig(t)})
	if err != nil {
		t.Fatal(err)
	}
	client, err := kube.Connect(access)
	if err != nil {
		t.Fatal(err)
	}
	return newExternal(t.Context(), c, access, client, observers{metrics: &metrics.Metrics{}}, deadline, nil)
}

// The flag sets the deadline of the plugins.
func TestPluginDeadline(t *testing.T) {
	if o, _, err := hosted(t, hanging{}, 20*time.Millisecond); o != nil || err == nil || !strings.Contains(err.Error(), "20ms") {
		t.Errorf("got %v, error %v; want one about a deadline of 20ms", o, err)
	}
}

// After a failed factory, the context of the factories ends, and with it everything that
// they have started.
func TestFailedFactory(t *testing.T) {
	errNo := errors.New("no CRD")
	var of context.Context
	o, full, err := hostedBy(t, func(ctx context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
		of = ctx
		h.SharedInformerFactory().Core().V1().ConfigMaps().Informer()
		return nil, errNo
	}, time.Minute)
	if o != nil || full != nil || !errors.Is(err, errNo) || ExitCode(err) != exitFailure {
		t.Errorf("got %v, %v, error %v", o, full, err)
	}
	if of.Err() == nil {
		t.Error("the context goes on")
	}
}

// stuck is a plugin that fails to close, and that has registered for impossible events.
type stuck struct{ testFilter }

func (stuck) Close() error { return errors.New("it is stuck") }

func (stuck) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{{Event: fwk.ClusterEvent{Resource: "Nonsense", ActionType: fwk.Add}}, {Event: fwk.ClusterEvent{Resource: "bars.v1.example.org", ActionType: fwk.Add}}}, nil
}

// Impossible registrations of a plugin are logged, and so is its failure to close. With
// plugins, the watch has whole objects from the plugins' informers, and changes of other
// resources. Without plugins, it has the fields that scheduling reads.
func TestWhatPluginsCannotGetIsLogged(t *testing.T) {
	o, full, err := hosted(t, stuck{}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	log := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&said)))
	if options := o.watches(full, nil, log); len(options) != 3 {
		t.Errorf("the watch has %d options", len(options))
	}
	o.stop(log)
	for _, want := range []string{`"A plugin registered for events that are never delivered" err="resource \"Nonsense\" of an event: must be`, `"Plugins failed to close" err="`, "it is stuck"} {
		if strings.Count(said.String(), want) != 1 {
			t.Errorf("%q is not logged once:\n%s", want, said.String())
		}
	}
	if strings.Contains(said.String(), "bars") || o.ctx.Err() == nil {
		t.Errorf("logged\n%s\nthe context of the plugins ended with %v", said.String(), o.ctx.Err())
	}
	plain, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	if options := (*external)(nil).watches(plain, nil, log); options != nil {
		t.Errorf("without plugins the watch has %d options", len(options))
	}
	asks, err := config.Read(config.Request{AskExtenders: true, File: file(t, "scheduler.yaml", header+"extenders: [{urlPrefix: \"http://127.0.0.1:1/extend\", filterVerb: filter}]\n")})
	if err != nil {
		t.Fatal(err)
	}
	if options := (*external)(nil).watches(asks, nil, log); len(options) != 2 {
		t.Errorf("with an extender, and without plugins, the watch has %d options", len(options))
	}
}

// A scheduler that cannot serve ends, and its plugins are closed.
func TestPluginsCloseWithoutServer(t *testing.T) {
	closed := make(chan string, 1)
	o, full, err := hosted(t, closing{closed: closed}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	name, err := cache.NewInformerName(server.Name)
	if err != nil {
		t.Fatal(err)
	}
	s := &scheduler{config: full, log: klog.Background(), external: o, name: name, serve: &server.Config{Serving: &apiserver.SecureServingInfo{}, Configuration: full.Source}}
	if err := s.run(t.Context()); err == nil || !strings.Contains(err.Error(), "start the secure server") {
		t.Errorf("the error is %v", err)
	}
	if len(closed) != 1 {
		t.Error("the plugin was not closed")
	}
	if name, err = cache.NewInformerName(server.Name); err != nil {
		t.Errorf("the name is not left to the next scheduler: %v", err)
	}
	name.Release()
}
