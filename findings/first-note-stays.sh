#!/usr/bin/env bash
# kube-scheduler reports each failed attempt of a pod as an event FailedScheduling, with
# the reasons in the note.
#
# Guess: the event shows the reasons of the last attempt, or other reasons make another
# event.
# Found: the key of a series has no note. The second event with the same reason and pod
# becomes a patch of the first that holds only the count. `kubectl describe pod` shows the
# reasons of the first attempt beside the age of the last. Only the condition PodScheduled
# has the present reasons. The older recorder, package tools/record, has the message in
# its key.
#
# k8s.io/client-go v0.37.1, package tools/events, with a sink in place of the API server.
. "$(dirname "$0")/lib/go.sh"

expect first-note-stays 'create: 0/3 nodes are available: 3 Insufficient cpu.
patch: count 2, note in the patch: false
notes written for 5 events with 5 notes: 1' \
	k8s.io/client-go/tools/events@v0.37.1 k8s.io/client-go/kubernetes/scheme@v0.37.1 <<'GO'
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
)

type sink struct {
	notes atomic.Int32
	done  chan string
}

func (s *sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.notes.Add(1)
	s.done <- "create: " + e.Note
	return e, nil
}

func (s *sink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.notes.Add(1)
	s.done <- "update: " + e.Note
	return e, nil
}

func (s *sink) Patch(_ context.Context, e *eventsv1.Event, patch []byte) (*eventsv1.Event, error) {
	var fields map[string]any
	if err := json.Unmarshal(patch, &fields); err != nil {
		panic(err)
	}
	_, note := fields["note"]
	if note {
		s.notes.Add(1)
	}
	s.done <- fmt.Sprintf("patch: count %d, note in the patch: %v", e.Series.Count, note)
	return e, nil
}

func main() {
	s := &sink{done: make(chan string, 10)}
	broadcaster := events.NewBroadcaster(s)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		panic(err)
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "default-scheduler")
	pod := &v1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "web-0", "1"
	note := func(format string, args ...any) {
		recorder.Eventf(pod, nil, v1.EventTypeWarning, "FailedScheduling", "Scheduling", format, args...)
	}
	note("0/3 nodes are available: 3 Insufficient cpu.")
	fmt.Println(<-s.done)
	note("0/3 nodes are available: 3 node(s) had untolerated taint(s).")
	fmt.Println(<-s.done)
	for i := range 3 {
		note("0/%d nodes are available: %d Too many pods.", i+4, i+4)
	}
	time.Sleep(2 * time.Second)
	fmt.Println("notes written for 5 events with 5 notes:", s.notes.Load())
}
GO
