package history

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/model/reason"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/elements"
)

// decision makes a decision about a pod with the given name.
func decision(name string, attempt int, placed bool) plan.Decision {
	pod := model.NewPod(build.Pod(build.Named(name)))
	q := plan.QueuedPod{Pod: pod, Attempt: attempt, Popped: time.Unix(1_000_000, 0), Woken: plan.Woken{Event: "NodeAdd", Plugin: "NodeResourcesFit"}}
	d := plan.Decision{Member: plan.Member{QueuedPod: q}, Nodes: 5, Feasible: 2}
	if placed {
		d.Outcome, d.Placement = plan.Placed, plan.Placement{Pod: q.Pod, NodeName: "n", Total: 300}
		return d
	}
	d.Outcome, d.Feasible = plan.Unschedulable, 0
	d.Rejection = &plan.Rejection{Counts: []reason.Count{{Nodes: 5, Reason: "Insufficient " + name}}, Plugins: []string{"NodeResourcesFit"}}
	d.PostFilter = "preemption: of " + name
	return d
}

// take notes a decision with a full budget for notes.
func (h *History) take(d plan.Decision) {
	h.budget.notes = maxSaved
	h.Round(&loop.Round{Attempt: &plan.Attempt{Members: []plan.Decision{d}, Outcome: d.Outcome}})
}

// TestBounded notes decisions about very many pods, which wait for long. The counted size
// and the number of elements stay within the limits.
func TestBounded(t *testing.T) {
	const bytes = 1 << 20
	h := newHistory(t, bytes)
	detail := plan.Detail{Feasible: 3, Best: make([]plan.NodeAnswer, 3), Removed: make([]plan.Removal, 2)}
	elementsNow := func() (n int) {
		for _, count := range elements.Of(h) {
			n += count
		}
		return n
	}
	var settled int
	for round := range 12 {
		for i := range 3000 {
			name := fmt.Sprintf("r%d-%d", round, i)
			d := decision(name, 1, i%2 == 0)
			d.Details = h.details.add(&detail)
			h.take(d)
			if i%3 == 0 {
				for attempt := range 12 {
					h.take(decision(name, attempt+2, false))
				}
			}
		}
		c := h.Counts()
		if c.Bytes > bytes || c.Placements == 0 || c.Waiting == 0 || c.Detailed == 0 {
			t.Fatalf("round %d: %+v, want at most %d bytes", round, c, bytes)
		}
		sum := 0
		for r := h.waiting.newest; r != nil; r = r.older {
			own := recordBytes
			for i := range r.attempts {
				own += r.attempts[i].bytes
			}
			if r.bytes != own || h.waiting.byPod[r.key] != r {
				t.Fatalf("round %d: the record of %s counts %d bytes, recounted %d", round, r.key, r.bytes, own)
			}
			sum += own
		}
		if sum != h.waiting.bytes {
			t.Fatalf("round %d: %d bytes of records, recounted %d", round, h.waiting.bytes, sum)
		}
		if n := elementsNow(); round < 4 {
			settled = max(settled, n)
		} else if n > settled+settled/10 {
			t.Fatalf("round %d: %d elements are kept, %d after the first rounds", round, n, settled)
		}
	}
}

// TestFirstAndLastAttempts stores the first attempts of a pod and the last ones.
func TestFirstAndLastAttempts(t *testing.T) {
	h := newHistory(t, 0)
	for attempt := range 100 {
		h.take(decision("p", attempt+1, false))
	}
	r := h.waiting.byPod[model.PodKey{Namespace: "default", Name: "p"}]
	var numbers []int32
	for i := range r.attempts {
		numbers = append(numbers, r.attempts[i].number)
	}
	if got, want := fmt.Sprint(numbers), "[1 2 95 96 97 98 99 100]"; got != want {
		t.Errorf("attempts %s, want %s", got, want)
	}
}

// TestForgetsTheOldest drops the pods with the oldest last attempts, and the oldest
// placements.
func TestForgetsTheOldest(t *testing.T) {
	h := newHistory(t, 64<<10)
	for i := range 5000 {
		h.take(decision(fmt.Sprintf("w%d", i), 1, false))
		h.take(decision(fmt.Sprintf("p%d", i), 1, true))
	}
	key := func(name string) model.PodKey { return model.PodKey{Namespace: "default", Name: name} }
	if h.waiting.byPod[key("w4999")] == nil || h.waiting.byPod[key("w0")] != nil || h.placed.of(key("p4999")) == nil || h.placed.of(key("p0")) != nil {
		t.Errorf("the newest are not kept, or the oldest are: %+v", h.Counts())
	}
	if x := h.placed.of(key("p4990")); x.node != "n" || x.total != 300 || x.name != "p4990" {
		t.Errorf("%+v", x)
	}
}

// TestBudget makes decisions that take 20 µs, with details that take 50 µs. Recordings
// use 2 % of the time and the savings. If one in fifty decisions is the first of an
// owner, all of these are recorded.
func TestBudget(t *testing.T) {
	b := newBudget()
	now := time.Unix(1_000_000, 0)
	const decisions, took, cost = 100_000, 20 * time.Microsecond, 50 * time.Microsecond
	var spent time.Duration
	firsts, recorded := 0, 0
	for i := range decisions {
		now = now.Add(took)
		owner := "deployment"
		if i%50 == 0 {
			owner = fmt.Sprintf("job-%06d", i)
		}
		pod := model.NewPod(build.Pod(build.Named(owner)))
		q := &plan.QueuedPod{Pod: pod, Popped: now}
		b.earn(now, took)
		if i%50 == 0 {
			firsts++
		}
		if b.affords(q, 1) {
			b.spend(q, cost)
			spent += cost
			if i%50 == 0 {
				recorded++
			}
		}
	}
	if most := decisions*took*detailsPercent/100 + maxSaved + cost; spent > most || spent < most/2 {
		t.Errorf("%v were spent on details, want at most %v, and half of that at least", spent, most)
	}
	if recorded < firsts/4 {
		t.Errorf("%d of %d first pods of an owner were recorded", recorded, firsts)
	}
}

// TestBudgetAmongDomains decides over and over about a group of five members in four
// equal domains. Each decision takes 20 µs and its details 50 µs. The recordings are
// bounded as usual, and no domain takes all of the budget.
func TestBudgetAmongDomains(t *testing.T) {
	b := newBudget()
	now := time.Unix(1_000_000, 0)
	const groups, domains, members, took, cost = 2000, 4, 5, 20 * time.Microsecond, 50 * time.Microsecond
	var spent time.Duration
	var byDomain [domains]int
	for i := range groups {
		pod := model.NewPod(build.Pod(build.Named(fmt.Sprintf("group-%06d", i))))
		for domain := range domains {
			for range members {
				now = now.Add(took)
				q := &plan.QueuedPod{Pod: pod, Popped: now}
				if b.affords(q, domains-domain) {
					b.spend(q, cost)
					spent += cost
					byDomain[domain]++
				}
			}
		}
		b.earn(now, domains*members*took)
	}
	if most := groups*domains*members*took*detailsPercent/100 + maxSaved + cost; spent > most || spent < most/4 {
		t.Errorf("%v were spent on details, want at most %v, and a fourth of that at least", spent, most)
	}
	for domain, n := range byDomain {
		if n < byDomain[0]/8 || n == 0 {
			t.Errorf("domain %d: %d details, the domains %v", domain, n, byDomain)
		}
	}
}

// TestRecordingEarnsNothing: recording details of members is part of the decision's
// duration, but earns no budget for further recordings.
func TestRecordingEarnsNothing(t *testing.T) {
	for _, recording := range []time.Duration{0, time.Second} {
		h := newHistory(t, 0)
		h.budget.details, h.budget.last, h.grouped = 0, time.Unix(1_000_000, 0), recording
		d := decision("p", 1, true)
		d.Popped = h.budget.last
		h.Round(&loop.Round{Attempt: &plan.Attempt{Group: &model.PodGroup{}, Members: []plan.Decision{d}}, Deciding: time.Second})
		if earned := h.budget.details > 0; earned != (recording == 0) || h.grouped != 0 {
			t.Errorf("recording took %v of a second: %v may be spent", recording, h.budget.details)
		}
	}
}

// TestNotesAreBounded rejects 20,000 pods over and over, each decision in 4 µs. Notes use
// 1 % of the time and the savings, and the first attempt of a pod goes before others.
func TestNotesAreBounded(t *testing.T) {
	b := newBudget()
	now := time.Unix(1_000_000, 0)
	const decisions, took = 400_000, 4 * time.Microsecond
	noted, firsts, notedFirsts := 0, 0, 0
	for i := range decisions {
		now = now.Add(took)
		b.earn(now, took)
		first := i%100 == 0
		if first {
			firsts++
		}
		if b.takeNote(first) {
			if noted++; first {
				notedFirsts++
			}
		}
	}
	if notedFirsts < firsts {
		t.Errorf("%d of %d first attempts were noted", notedFirsts, firsts)
	}
	if spent, most := time.Duration(noted)*noteCost, decisions*took*notesPercent/100+maxSaved; spent > most || spent < most/2 {
		t.Errorf("%v were spent on notes, want at most %v, and half of that at least", spent, most)
	}
}

// TestLongTexts counts the text of a long rejection once, and cuts it at a character
// boundary.
func TestLongTexts(t *testing.T) {
	h := newHistory(t, 0)
	d := decision("p", 1, false)
	d.PostFilter = ""
	d.Rejection = &plan.Rejection{Counts: []reason.Count{{Nodes: 5, Reason: strings.Repeat("ü", maxText)}}, Plugins: []string{"NodeResourcesFit"}}
	h.take(d)
	r := h.waiting.byPod[model.PodKey{Namespace: "default", Name: "p"}]
	text := r.attempts[0].text
	if want := recordBytes + attemptBytes + len(text); r.bytes != want || h.waiting.bytes != want {
		t.Errorf("%d bytes are counted, %d in all, want %d", r.bytes, h.waiting.bytes, want)
	}
	for lead := range utf8.UTFMax {
		long := strings.Repeat("x", lead) + strings.Repeat("𝕏", maxText)
		if got := cut(long); !utf8.ValidString(got) || len(got) <= maxText-utf8.UTFMax || len(got) > maxText+len("…") {
			t.Errorf("%d bytes, which end with %q", len(got), got[len(got)-8:])
		}
	}
	if !utf8.ValidString(text) {
		t.Errorf("%q is cut within a character", text)
	}
}

// TestDefaultSuffices compares the default number of placements with docs/explain.md and
// the comment of DefaultBytes.
func TestDefaultSuffices(t *testing.T) {
	most := newHistory(t, 0).placed.most
	said := fmt.Sprintf("%d,000 placements", most/1000)
	for _, file := range []string{"history.go", "../../../docs/explain.md"} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), said) {
			t.Errorf("%s does not have %q, of %d that are kept: %v", file, said, most, err)
		}
	}
}
