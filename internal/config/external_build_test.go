package config

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/model"
)

// Each profile has its own instance. After a failure, the plugins that were built are
// closed, the last first.
func TestInstances(t *testing.T) {
	var closed, made []string
	o, err := NewExternal([]Registered{
		{"Mine", func(_ context.Context, _ runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
			made = append(made, h.ProfileName())
			return closes{filters{named("Mine of " + h.ProfileName())}, &closed, nil}, nil
		}},
		{"Broken", just(closes{filters{"Broken"}, &closed, errors.New("stuck")})},
		{"Fails", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
			return nil, errors.New("no CRD")
		}},
	}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const mine, broken = `{plugins: {multiPoint: {enabled: [{name: Mine}]}}, schedulerName: %s}`, `{plugins: {multiPoint: {enabled: [{name: Mine}, {name: %s}]}}, schedulerName: c}`
	c, err := ours(fmt.Sprintf(mine, "a")+", {schedulerName: b}, "+fmt.Sprintf(broken, "Broken"), o)
	if err != nil {
		t.Fatal(err)
	}
	h := &testHost{}
	full, err := c.Build(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "c"}; !slices.Equal(made, want) || !slices.Equal(h.asked, want) {
		t.Errorf("made for %v, hosted are %v, want %v", made, h.asked, want)
	}
	if len(h.complete) != 2 || h.complete[0] != full.Profiles[0] || h.complete[1] != full.Profiles[2] {
		t.Errorf("%d profiles are complete", len(h.complete))
	}
	if full.Profiles[0].External == nil || full.Profiles[1].External != nil {
		t.Error("External is set where it should not be, or not where it should")
	}
	if order := h.orders[1]; !slices.Equal(order.Enabled, []string{"Mine", "Broken"}) || len(order.Plugins) != 2 {
		t.Errorf("the order of c is %+v", order)
	}
	if err := full.Close(); err == nil || err.Error() != "framework c failed to close: Broken failed to close: stuck" {
		t.Errorf("closing returned %v", err)
	}
	if want := []string{"Broken", "Mine of c", "Mine of a"}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}

	closed = nil
	c, err = ours(fmt.Sprintf(mine, "a")+", "+fmt.Sprintf(broken, "Fails"), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Build(t.Context(), h); err == nil || err.Error() != `initializing profiles: creating profile for scheduler name c: initializing plugin "Fails": no CRD` {
		t.Errorf("the error is %v", err)
	}
	if want := []string{"Mine of c", "Mine of a"}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
}

// neverCloses is a plugin whose Close does not return.
type neverCloses struct{ filters }

func (neverCloses) Close() error { select {} }

// A plugin that does not close is abandoned after a while, and the others are closed.
func TestCloseThatHangs(t *testing.T) {
	t.Parallel()
	var closed []string
	err := closeAll([]madeExternal{
		{"a", "First", closes{filters{"First"}, &closed, nil}}, {"a", "Hangs", neverCloses{}}, {"a", "Last", closes{filters{"Last"}, &closed, nil}},
	})
	if err == nil || err.Error() != "framework a failed to close: Hangs failed to close: Close did not return within 2s" {
		t.Errorf("the error is %v", err)
	}
	if want := []string{"Last", "First"}; !slices.Equal(closed, want) {
		t.Errorf("closed %v, want %v", closed, want)
	}
}

// A hanging factory ends with the context.
func TestFactoryThatHangs(t *testing.T) {
	o, err := NewExternal([]Registered{{"Hangs", func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { select {} }}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ours(`{plugins: {multiPoint: {enabled: [{name: Hangs}]}}}`, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(10*time.Millisecond, func() { cancel(errors.New("enough")) })
	if _, err := c.Build(ctx, &testHost{}); err == nil || !strings.HasSuffix(err.Error(), `initializing plugin "Hangs": its factory had not returned when the scheduler was stopped: enough`) {
		t.Errorf("the error is %v", err)
	}
}

// All profiles have the same QueueSort plugin, with the same arguments.
func TestQueueSortOfAllProfiles(t *testing.T) {
	const everywhere = `multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: Sorts}]}`
	const sorted = `queueSort: {disabled: [{name: "*"}], enabled: [{name: Sorts}]}`
	for _, test := range []struct{ first, second, want string }{
		{`plugins: {` + everywhere + `}`, `plugins: {` + everywhere + `}`, ""},
		{`plugins: {` + sorted + `}`, `plugins: {` + sorted + `}`, ""},
		{`plugins: {` + sorted + `}`, ``, "profiles[1].plugins.queueSort: Invalid value"},
		{`plugins: {` + everywhere + `}`, ``, `initializing profiles: different queue sort plugins for profile "b": "PrioritySort", first: "Sorts"`},
		{`plugins: {` + everywhere + `}, pluginConfig: [{name: Sorts, args: {a: 1}}]`, `plugins: {` + everywhere + `}`, `different queue sort plugin args for profile "b"`},
	} {
		c, err := ours(fmt.Sprintf("{schedulerName: a, %s}, {schedulerName: b, %s}", test.first, test.second), fromExternal(t))
		if err == nil {
			_, err = c.Build(t.Context(), &testHost{})
		}
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s and %s:\n got %v\nwant %s", test.first, test.second, err, test.want)
		}
	}
}

// Kinds that adapters read are watched, and whole objects are kept if needed.
func TestWhatExternalNeeds(t *testing.T) {
	const extender = "\nextenders: [{urlPrefix: \"http://x\", prioritizeVerb: p, weight: 1}]"
	for _, test := range []struct {
		name, profile, more string
		enables, whole      bool
	}{
		{"neither", `{}`, "", false, false},
		{"a plugin", `{plugins: {` + `multiPoint: {disabled: [{name: "*"}], enabled: [` + few + `, {name: Filters}]}}}`, "", true, true},
		{"an extender", `{}`, extender, false, true},
	} {
		c, err := ParseWith("f", []byte(header+"profiles: ["+test.profile+"]"+test.more+"\n"), Request{External: fromExternal(t)})
		if err != nil {
			t.Fatal(err)
		}
		full, err := c.Build(t.Context(), &testHost{})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*Config{c, full} {
			if c.EnablesExternal() != test.enables || c.WholeObjects() != test.whole {
				t.Errorf("%s: enables %t, whole objects %t", test.name, c.EnablesExternal(), c.WholeObjects())
			}
		}
		if test.enables && (slices.Contains(c.Reads(), model.NamespaceKind) || !slices.Contains(full.Reads(), model.NamespaceKind)) {
			t.Errorf("%s: kinds are %v, and %v with what the adapters read", test.name, c.Reads(), full.Reads())
		}
	}
}
