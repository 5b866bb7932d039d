package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/compare"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

var storing = flag.Bool("write", false, "store the answers of the program PARITY138")

// storedFile has answers of kube-scheduler 1.38, because its program needs a newer Go.
const storedFile = "testdata/release138.json.gz"

// stored are the answers to the first seeds of the rules' shapes.
type stored struct {
	// Version is the version of k8s.io/kubernetes.
	Version string
	// Answers are by shape and seed, in the order of the calls.
	Answers map[string][]json.RawMessage
}

// storedSeeds is the number of stored seeds of each shape.
const storedSeeds = 5

// answered is the answer to Explain or Commit.
type answered struct {
	Verdict      *upstream.Verdict
	Calls, Waits []string `json:",omitempty"`
}

// TestStoredAnswersOf138 compares Berth with the stored answers: no pod differs with the
// answers of 1.38, and for each rule some pods differ with those of 1.37.
func TestStoredAnswersOf138(t *testing.T) {
	all := readStored(t)
	for _, rule := range config.Rules() {
		shape, failed := cases.ReleaseShapes()[rule.Name], 0
		for seed := range uint64(storedSeeds) {
			key := fmt.Sprintf("%s %d", shape.Name, seed+1)
			pair := compare.Pair{Sends: true, Release: config.Release38, New: func([]byte) (compare.KubeScheduler, error) {
				return &replayer{answers: all.Answers[key]}, nil
			}}
			r, err := pair.Case(shape.Draw(seed + 1))
			if err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			for _, d := range r.Differences {
				t.Errorf("%s: kube-scheduler %s: %s", key, all.Version, d)
			}
			pair.Release = config.Release37
			if r, err = pair.Case(shape.Draw(seed + 1)); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			failed += r.Failed
		}
		if failed == 0 {
			t.Errorf("%s: the stored answers are those of 1.37", rule.Name)
		}
	}
}

// TestStoreAnswersOf138 stores the answers, or checks that the program has the version of
// the stored ones. Some texts name any of several nodes, so they differ between runs.
func TestStoreAnswersOf138(t *testing.T) {
	client := startOther(t)
	if !*storing {
		if all := readStored(t); all.Version != client.Version {
			t.Errorf("the stored answers are those of %s, the program is %s: make parity138-rules WRITE=1", all.Version, client.Version)
		}
		return
	}
	made := stored{Version: client.Version, Answers: map[string][]json.RawMessage{}}
	for _, shape := range cases.ReleaseShapes() {
		for seed := range uint64(storedSeeds) {
			key := fmt.Sprintf("%s %d", shape.Name, seed+1)
			r := &recorder{}
			pair := compare.Pair{Sends: true, Release: config.Release38, New: func(config []byte) (k compare.KubeScheduler, err error) {
				r.KubeScheduler, err = client.New(config)
				return r, err
			}}
			if _, err := pair.Case(shape.Draw(seed + 1)); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
			made.Answers[key] = r.answers
		}
	}
	writeStored(t, &made)
}

func readStored(t *testing.T) (all stored) {
	t.Helper()
	file, err := os.Open(storedFile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(plain)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

func writeStored(t *testing.T, all *stored) {
	t.Helper()
	var packed bytes.Buffer
	plain := gzip.NewWriter(&packed)
	if err := json.NewEncoder(plain).Encode(all); err != nil {
		t.Fatal(err)
	}
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(storedFile, packed.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recorder keeps the answers of a kube-scheduler.
type recorder struct {
	compare.KubeScheduler
	answers []json.RawMessage
}

func (r *recorder) keep(a answered) {
	text, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	r.answers = append(r.answers, text)
}

// Explain keeps the verdict.
func (r *recorder) Explain(pod *v1.Pod) (*upstream.Verdict, error) {
	verdict, err := r.KubeScheduler.Explain(pod)
	r.keep(answered{Verdict: verdict})
	return verdict, err
}

// Commit keeps the result.
func (r *recorder) Commit(nodeName string) (*upstream.Verdict, []string, []string) {
	verdict, calls, waits := r.KubeScheduler.Commit(nodeName)
	r.keep(answered{verdict, calls, waits})
	return verdict, calls, waits
}

// replayer answers from a record. It ignores objects.
type replayer struct {
	compare.KubeScheduler
	answers []json.RawMessage
}

func (r *replayer) next() (a answered, err error) {
	if len(r.answers) == 0 {
		return a, fmt.Errorf("%s has too few answers: write it again", storedFile)
	}
	err = json.Unmarshal(r.answers[0], &a)
	r.answers = r.answers[1:]
	return a, err
}

func (r *replayer) SetNode(*v1.Node)               {}
func (r *replayer) SetPod(*v1.Pod) error           { return nil }
func (r *replayer) SetObject(runtime.Object) error { return nil }
func (r *replayer) Close()                         {}

// Explain returns the next verdict.
func (r *replayer) Explain(*v1.Pod) (*upstream.Verdict, error) {
	a, err := r.next()
	return a.Verdict, err
}

// Commit returns the next result. With other decisions of Berth the record does not fit;
// then it returns an error in the verdict.
func (r *replayer) Commit(string) (*upstream.Verdict, []string, []string) {
	a, err := r.next()
	if err != nil || a.Verdict == nil {
		return &upstream.Verdict{Err: fmt.Errorf("no stored answer: %w", err)}, nil, nil
	}
	return a.Verdict, a.Calls, a.Waits
}
