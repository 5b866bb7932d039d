package remote_test

import (
	"errors"
	"net"
	"reflect"
	"testing"

	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/compare"
	"github.com/berth-scheduler/berth/parity/internal/remote"
	"github.com/berth-scheduler/berth/parity/internal/sequence"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// served returns a pair whose kube-scheduler, of this process, is behind a pipe.
func served(t *testing.T) compare.Pair {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan error)
	go func() { done <- remote.Serve(far) }()
	client, err := remote.Dial(near)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	pair := compare.InProcess()
	pair.Sends, pair.New = true, func(config []byte) (compare.KubeScheduler, error) { return client.New(config) }
	return pair
}

// TestPipeLosesNothing compares cases of all kinds and short sequences with and without
// a pipe. The results are equal.
func TestPipeLosesNothing(t *testing.T) {
	piped := served(t)
	for _, s := range cases.Shapes() {
		tc := s.Draw(3)
		with, err := piped.Case(tc)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		if tc, err = tc.Sent(); err != nil {
			t.Fatal(err)
		}
		without, err := compare.InProcess().Case(tc)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(with, without) || with.Failed > 0 {
			t.Errorf("%s: %+v through the pipe, %+v without", s.Name, with, without)
		}
	}
	for _, s := range sequence.Scripts(60) {
		if s.Groups() {
			continue
		}
		with, err := sequence.Run(s, 1, piped, nil)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		if with.Failed > 0 || with.Passed == 0 {
			t.Errorf("%s: %d passed, %d failed through the pipe: %v", s.Name, with.Passed, with.Failed, with.Differences)
		}
	}
}

// TestFailures checks that failures reach the caller with their texts.
func TestFailures(t *testing.T) {
	piped := served(t)
	if _, err := piped.New([]byte("kind: Pod")); err == nil {
		t.Error("a configuration that is none is accepted")
	}
	_, here := upstream.New([]byte("kind: Pod"))
	if _, there := piped.New([]byte("kind: Pod")); there.Error() != here.Error() {
		t.Errorf("%q through the pipe, %q without", there, here)
	}
	k, err := piped.New(cases.EmptyConfig())
	if err != nil {
		t.Fatal(err)
	}
	pod := cases.Shapes()[0].Draw(1).Pods[0]
	verdict, err := k.Explain(pod)
	if err != nil || !errors.Is(verdict.Err, upstream.ErrNoNodes) {
		t.Errorf("without nodes: %v, %v", verdict, err)
	}
	k.Close()
	if _, err := k.Explain(pod); err == nil {
		t.Error("a closed scheduler answers")
	}
	k.SetNode(cases.Shapes()[0].Draw(1).Nodes[0])
	if err := k.SetPod(pod); err == nil {
		t.Error("an error of SetNode is lost")
	}
}
