package commit_test

import (
	"errors"
	"testing"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// TestAnnouncement checks when the chosen node is written as the nominated node before
// the binding.
func TestAnnouncement(t *testing.T) {
	for _, row := range []struct {
		name   string
		steps  []string
		works  bool
		before string // the pod's nominated node
		want   bool
	}{
		{"it waits", []string{"Permit/gang 5s"}, false, "", true},
		{"PreBind works", []string{"Reserve/r", "PreBind/a"}, true, "", true},
		{"PreBind does not work", []string{"Reserve/r", "PreBind/a"}, false, "", false},
		{"only a Bind plugin is called", []string{"Reserve/r", "Bind/a"}, false, "", false},
		{"a plugin of ours writes at PreBind", []string{"PreBind/v w"}, false, "", true},
		{"it writes, and those from outside do not work", []string{"Reserve/r", "PreBind/a", "PreBind/v w"}, false, "", true},
		{"it waits at PreBind", []string{"PreBind/v 5s"}, false, "", true},
		{"it writes, and is nominated there already", []string{"PreBind/v w"}, false, "node-of-p", false},
		{"only after the binding is written", []string{"PostBind/c w"}, false, "", false},
		{"it is nominated there already", []string{"Permit/gang 5s"}, false, "node-of-p", false},
		{"it is nominated elsewhere", []string{"Permit/gang 5s"}, false, "elsewhere", true},
	} {
		c := newCaller(t)
		d := withCalls(row.steps...)
		d.Placement.Pod = d.Placement.Pod.WithNominatedNode(row.before)
		c.start(d)
		if row.steps[0] == "Reserve/r" {
			c.returns("r", commit.CallResult{Works: row.works})
		}
		request, ok := c.Next(c.now, false)
		// At a write, the nomination is written in parallel.
		if ok && request.Kind != commit.Patch {
			step := request
			request, ok = c.Next(c.now, false)
			c.Done(c.now, step, commit.Response{Err: errNo})
		}
		if ok && (request.Kind != commit.Patch || request.Nomination.NodeName != "node-of-p") || ok != row.want {
			t.Errorf("%s: %s is next (%t), want a nomination: %t", row.name, request.Kind, ok, row.want)
		}
		if !ok || row.steps[0] == "Reserve/r" {
			continue
		}
		if at := c.AtPermitOf(uid); at != nil {
			c.RejectAt(c.now, at, "gang", "no")
		} else {
			c.Reject(c.now, uid, "v", errors.New("no"))
		}
		c.Done(c.now, request, commit.Response{})
		if request := c.take(commit.Patch, "p"); request.Nomination.Mode != plan.Clear {
			t.Errorf("%s: %+v is written after the rejection", row.name, request)
		}
	}
}

// announced ends the write of the nomination.
func (c *caller) announced(err error) commit.Request {
	c.Helper()
	request := c.take(commit.Patch, "p")
	if request.Nomination.Mode != plan.Set || request.Nomination.NodeName != "node-of-p" {
		c.Fatalf("%+v is written, want the nomination", request)
	}
	c.done(request, err)
	c.look()
	return request
}

// TestPreBindComesAfterTheAnnouncement takes bindings to their first call at PreBind.
// Before it, the nomination must be written, or its write must have failed.
func TestPreBindComesAfterTheAnnouncement(t *testing.T) {
	begin := func(c *caller) {
		c.start(withCalls("Reserve/r!", "PreBind/a"))
		c.returns("r", commit.CallResult{Works: true})
		c.look()
	}
	bound := func(c *caller) {
		c.returns("a", done)
		c.done(c.take(commit.Bind, "p"), nil)
		c.ended("<nil>", false)
		c.forgotten()
	}
	for _, row := range []struct {
		name string
		goes func(c *caller)
	}{
		{"it is written", func(c *caller) {
			begin(c)
			c.announced(nil)
			bound(c)
		}},
		{"the write fails", func(c *caller) {
			begin(c)
			c.announced(errNo)
			bound(c)
		}},
		{"other statuses wait", func(c *caller) {
			c.start(rejected(podNamed("other"), 1))
			begin(c)
			c.announced(nil)
			bound(c)
		}},
		{"a status of the pod waits", func(c *caller) {
			c.start(rejected(podNamed("p"), 1))
			begin(c)
			if request := c.announced(nil); request.Condition == nil {
				c.Error("the condition that waited is not written")
			}
			bound(c)
		}},
		{"a status of the pod is being written", func(c *caller) {
			c.start(rejected(podNamed("p"), 1))
			status := c.takeStatus()
			begin(c)
			c.done(status, nil)
			c.announced(nil)
			bound(c)
		}},
		{"it is rejected before the write", func(c *caller) {
			begin(c)
			c.Cancel(c.now, uid, errGone)
			c.returns("undo r", done)
			c.ended(`running PreBind plugin "a": `+errGone.Error(), false)
			if request := c.take(commit.Patch, "p"); request.Nomination.Mode != plan.Clear {
				c.Errorf("%+v is written after the rejection", request)
			}
		}},
		{"it is rejected during the write", func(c *caller) {
			begin(c)
			request := c.take(commit.Patch, "p")
			c.Cancel(c.now, uid, errGone)
			c.nothing()
			c.done(request, nil)
			c.returns("undo r", done)
			c.ended(`running PreBind plugin "a": `+errGone.Error(), false)
			if request := c.take(commit.Patch, "p"); request.Nomination.Mode != plan.Clear {
				c.Errorf("%+v is written after the rejection", request)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			row.goes(newCaller(t))
		})
	}
}

// TestNothingIsAnnounced binds pods without a nomination: they have no steps, or the
// feature gate is off.
func TestNothingIsAnnounced(t *testing.T) {
	for _, row := range []struct {
		name     string
		announce bool
		steps    []string
	}{
		{"no steps", true, nil},
		{"the gate is off", false, []string{"Permit/gang 5s", "PreBind/v w"}},
	} {
		config := commit.DefaultOutbox(binder, unchanged)
		config.Announce = row.announce
		c := &caller{bench: newBenchOf(t, config)}
		c.start(withCalls(row.steps...))
		c.Allow(c.now, uid, "gang")
		if row.steps != nil {
			c.done(c.takeWrite(commit.WriteStep, "v"), nil)
		}
		c.done(c.take(commit.Bind, "p"), nil)
		c.ended("<nil>", false)
		c.take(commit.Record, "p")
		c.nothing()
	}
}
