package commit_test

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/report"
)

// TestConditions plays decisions about the pod p, which shows the condition of a
// rejection by one node, and expects exactly these conditions to be written. A number is
// a rejection by that many nodes. "patch2" is the request with the condition of a
// rejection by two. "done" and "lost" end the request. "nominated" is a decision about
// another pod that nominates this pod to a node, and "patchn" is its request; a request
// with a condition may end in n, too.
func TestConditions(t *testing.T) {
	object := podNamed("p").Object.DeepCopy()
	first := rejected(podNamed("p"), 1)
	object.Status.Conditions = []v1.PodCondition{*report.Of(&first).Condition}
	object.Generation = 5 // its spec has changed since
	pod := model.NewPod(object)
	for _, test := range []struct{ name, play string }{
		{"it shows the condition", "1"},
		{"another", "2 patch2 done"},
		{"only the newest", "2 3 4 patch4 done"},
		{"the same is being written", "2 patch2 2 done"},
		{"another and then the same is being written", "2 patch2 3 2 done"},
		{"the same was written", "2 patch2 done 2"},
		{"another and then the same was written", "2 patch2 done 3 2"},
		{"taken back before it is sent", "2 1"},
		{"taken back while it is being written", "2 patch2 1 done patch1 done"},
		{"taken back after it was written", "2 patch2 done 1 patch1 done 1"},
		{"taken back although it may be written", "2 patch2 lost 1 patch1 done"},
		{"the same although it may be written", "2 patch2 done 3 patch3 lost 2 patch2 done"},
		{"taken back, and nominated", "nominated 2 1 patchn done"},
		{"nominated, and taken back", "2 nominated 1 patchn done"},
		{"nominated after another", "2 nominated patch2n done"},
		{"another, and the one before it may be written", "2 patch2 3 lost patch3 done"},
		{"another, and a nomination before it may be written", "nominated 2 patch2n 3 lost patch3n done"},
		{"nominated, and the condition before may be written", "2 patch2 nominated lost patch2n done"},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBench(t, 10)
			var request commit.Request
			for _, word := range strings.Fields(test.play) {
				switch {
				case word == "nominated":
					b.start(nominated(pod, "a"))
				case word == "done":
					b.answer(request, "", nil)
				case word == "lost":
					b.answer(request, "", errBroken)
					b.now, _ = b.Due()
				case strings.HasPrefix(word, "patch"):
					word, nominates := strings.CutSuffix(word, "n")
					if request = b.takeStatus(); !strings.HasSuffix(word, countOf(request.Condition)) || request.Condition == nil && word != "patch" {
						t.Fatalf("the condition is %v, want %s", request.Condition, word)
					}
					if got := request.Nomination.Mode == plan.Set && request.Nomination.NodeName == "a"; got != nominates {
						t.Fatalf("%s: the nomination is %+v", word, request.Nomination)
					}
					if request.Condition != nil && request.Condition.ObservedGeneration != object.Generation {
						t.Fatalf("%s: the condition is of generation %d, want %d", word, request.Condition.ObservedGeneration, object.Generation)
					}
				default:
					nodes := 0
					if _, err := fmt.Sscan(word, &nodes); err != nil {
						t.Fatal(err)
					}
					b.start(rejected(pod, nodes))
				}
				if err := b.Audit(); err != nil {
					t.Fatal(err)
				}
			}
			if request, ok := b.nextStatus(); ok {
				t.Errorf("another condition is written: %v", request.Condition)
			}
		})
	}
}

// countOf returns the number of nodes in the message of a rejection's condition.
func countOf(condition *v1.PodCondition) string {
	if condition == nil {
		return ""
	}
	_, rest, _ := strings.Cut(condition.Message, "/")
	nodes, _, _ := strings.Cut(rest, " ")
	return nodes
}

// nextStatus takes the next request that writes a status, and answers events.
func (b *bench) nextStatus() (commit.Request, bool) {
	for {
		request, ok := b.Next(b.now, false)
		if !ok || request.Kind == commit.Patch {
			return request, ok
		}
		b.Done(b.now, request, commit.Response{})
	}
}

func (b *bench) takeStatus() commit.Request {
	b.Helper()
	request, ok := b.nextStatus()
	if !ok {
		b.Fatal("no status is to be written")
	}
	return request
}
