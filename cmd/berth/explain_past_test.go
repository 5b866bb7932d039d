package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/internal/answers/explain"
	"github.com/berth-scheduler/berth/internal/answers/history"
)

// shownDecision and shownPast are the inputs of the screens in docs/explain.md.
func shownDecision() *history.Decision {
	total := int64(503)
	d := &history.Decision{
		Version: history.Version, At: time.Date(2026, 11, 2, 9, 0, 1, 0, time.UTC), Attempt: 1, Node: "web-a2", Total: &total, Nodes: 6, Feasible: 4,
		Removed: []history.Removal{{Plugins: []string{"TaintToleration"}, Nodes: 2}},
		Tipped:  []history.Margin{{Plugin: "ImageLocality", Weight: 1, Score: 28, Points: 28}},
	}
	for _, n := range []struct {
		name  string
		image int64
	}{{"web-a2", 28}, {"web-a1", 0}, {"web-a4", 0}} {
		d.Best = append(d.Best, history.Node{Name: n.name, Total: 475 + n.image, Scores: []history.Score{
			{Plugin: "TaintToleration", Weight: 3, Score: 100}, {Plugin: "NodeResourcesFit", Weight: 1, Score: 84}, {Plugin: "NodeResourcesBalancedAllocation", Weight: 1, Score: 91}, {Plugin: "ImageLocality", Weight: 1, Score: n.image},
		}})
	}
	return d
}

func shownPast() *history.Past {
	return &history.Past{
		Version: history.Version, Place: "parked", Attempts: 3, Rejectors: []string{"NodeResourcesFit"},
		Kept:     []history.Attempt{{Number: 3, At: time.Date(2026, 11, 2, 9, 4, 30, 0, time.UTC), Outcome: "unschedulable", WokenBy: "NodeAdd", WokenFor: "NodeResourcesFit", Nodes: 6, Message: "0/6 nodes are available"}},
		WaitsFor: []history.WaitsFor{{Plugin: "NodeResourcesFit", Events: []string{"AssignedPodDelete", "NodeAdd", "NodeUpdateNodeAllocatable"}}},
	}
}

// TestShownHistory compares the screens of a decision and of a pending pod with
// docs/explain.md.
func TestShownHistory(t *testing.T) {
	text, err := os.ReadFile("../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	printPlaced(&out, &explain.Explanation{Pod: "shop/web-0", Profile: "default-scheduler", Decision: shownDecision(), History: &history.Past{}})
	want := "```\n" + out.String() + "\n" + strings.Join(pastLines(shownPast()), "\n") + "\n```\n"
	if !strings.Contains(string(text), want) {
		t.Errorf("docs/explain.md does not have\n%s", want)
	}
}

// TestPresent describes a pod's place, its reason to wait and the pods before it.
func TestPresent(t *testing.T) {
	end := time.Date(2026, 11, 2, 9, 0, 1, 0, time.UTC)
	for _, test := range []struct {
		past history.Past
		want string
	}{
		{history.Past{Place: "active", Ahead: &history.Ahead{Pods: 9, Next: []string{"a/b", "a/c", "a/d", "a/e"}}}, "It was not tried yet.\nNow: active, 9 pods before it (a/b, a/c, a/d and 6 more)."},
		{history.Past{Place: "active", Attempts: 2, Ahead: &history.Ahead{Pods: 20000, AtLeast: true}}, "It was tried 2 times.\nNow: active, at least 20000 pods before it."},
		{history.Past{Place: "gated", Rejectors: []string{"SchedulingGates"}}, "It was not tried yet.\nNow: gated, by SchedulingGates."},
		{
			history.Past{Place: "backing off after an error", BackoffEnd: &end, Kept: []history.Attempt{{At: end, BindingFailed: "no"}}},
			"At 2026-11-02T09:00:01Z failed to bind: no.\nNow: backing off after an error, not before 2026-11-02T09:00:01Z.",
		},
		{
			history.Past{Place: "parked", Leaving: 2, Kept: []history.Attempt{{Number: 1, At: end, Nominated: "n", Evictions: 2, Victims: []string{"a/v", "a/w"}}}},
			"Attempt 1 at 2026-11-02T09:00:01Z failed; 2 pods were evicted for it from n, such as a/v, a/w.\nNow: parked, until 2 evicted pods are gone.",
		},
		{
			history.Past{Place: "gated", Group: &history.Group{
				Name: "ml/train", Exists: true, MinCount: 8, Missing: 2, Waiting: 6, HeldCount: 1, Held: []history.Member{{Pod: "ml/t-1", Plugins: []string{"SchedulingGates"}}},
				RejectedCount: 1, Rejected: []history.Member{{Pod: "ml/t-2", Plugins: []string{"NodeResourcesFit"}}}, Gate: "GangScheduling",
			}},
			"It was not tried yet.\nNow: gated; group ml/train: 6 wait, 0 have a node; 2 of 8 members do not exist yet; 1 is held, such as ml/t-1 by SchedulingGates; " +
				"1 was rejected, such as ml/t-2 by NodeResourcesFit; GangScheduling holds it.",
		},
		{
			history.Past{Place: "gated", Group: &history.Group{Name: "ml/train", Exists: true, MinCount: 4, Missing: 1, Waiting: 1, Placed: 1, HeldCount: 3, RejectedCount: 2}},
			"It was not tried yet.\nNow: gated; group ml/train: 1 waits, 1 has a node; 1 of 4 members does not exist yet; 3 are held; 2 were rejected.",
		},
		{history.Past{Place: "active", Ahead: &history.Ahead{Pods: 1, Next: []string{"a/b"}}}, "It was not tried yet.\nNow: active, 1 pod before it (a/b)."},
		{history.Past{Place: "active", AheadUnknown: "a plugin orders the queue"}, "It was not tried yet.\nNow: active, position in the queue unknown (a plugin orders the queue)."},
		{
			history.Past{Place: "parked", Leaving: 1, Kept: []history.Attempt{{Number: 1, At: end, Nominated: "n", Evictions: 1, Victims: []string{"a/v"}}}},
			"Attempt 1 at 2026-11-02T09:00:01Z failed; 1 pod was evicted for it from n, such as a/v.\nNow: parked, until 1 evicted pod is gone.",
		},
	} {
		if got := strings.Join(pastLines(&test.past), "\n"); got != test.want {
			t.Errorf("%+v:\n%s\nwant\n%s", test.past, got, test.want)
		}
	}
}

// TestPlacedScreen has ten lines at most, and mentions missing data.
func TestPlacedScreen(t *testing.T) {
	many := shownDecision()
	many.Attempt = 4
	for range 5 {
		many.Removed = append(many.Removed, many.Removed[0])
	}
	equal := shownDecision()
	equal.Best[1].Total = equal.Best[0].Total
	for name, test := range map[string]struct {
		decision *history.Decision
		want     string
	}{
		"much":     {many, "4th attempt"},
		"equal":    {equal, "web-a2 and web-a1 are equally good: the seed chose."},
		"sampled":  {&history.Decision{Node: "n", NotRecorded: "they were not recorded"}, "Why this node: they were not recorded."},
		"nothing":  {nil, "The scheduler has no record of the decision"},
		"21st":     {&history.Decision{Node: "n", Attempt: 21}, "on n, 21st attempt, "},
		"one node": {&history.Decision{Node: "n", Attempt: 2, Nodes: 9, Feasible: 1}, "on n, second attempt, at 0001-01-01T00:00:00Z; 1 of 9 nodes were feasible."},
	} {
		var out bytes.Buffer
		printPlaced(&out, &explain.Explanation{Pod: "a/b", Decision: test.decision, History: shownPast()})
		if lines := strings.Count(out.String(), "\n"); lines == 0 || lines > screenLines || !strings.Contains(out.String(), test.want) {
			t.Errorf("%s: %d lines, want %q in\n%s", name, lines, test.want, out.String())
		}
	}
}

// TestOrdinal counts in English.
func TestOrdinal(t *testing.T) {
	for n, want := range map[int]string{1: "first", 2: "second", 3: "third", 4: "4th", 11: "11th", 12: "12th", 13: "13th", 21: "21st", 22: "22nd", 23: "23rd", 24: "24th", 101: "101st", 111: "111th", 1012: "1012th"} {
		if got := ordinal(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestPrintPast prints all attempts. A failed binding whose attempt is no longer in the
// history has no number.
func TestPrintPast(t *testing.T) {
	p := shownPast()
	p.Forgotten = true
	p.Kept = append(p.Kept, history.Attempt{At: p.Kept[0].At.Add(time.Minute), Outcome: "placed", BindingFailed: "etcd is full"})
	var out bytes.Buffer
	printPast(&out, p)
	for _, want := range []string{"History (3 attempts; recorded: 1):", "\n<unknown>   2026-11-02T09:05:30Z ", "binding failed   <unknown>", "NodeAdd", "0 of 6", "0/6 nodes are available", "Now: parked"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}
