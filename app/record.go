package app

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/recording"
)

// checkRecord returns an error if decisions would depend on inputs that a recording
// lacks.
func (o *options) checkRecord(c *config.Config) error {
	switch {
	case o.record == "":
		return nil
	case c.WholeObjects():
		return errors.New("--berth-record: the configuration has extenders or out-of-tree plugins, whose answers are not recorded: remove the flag")
	case o.eventHints:
		return errors.New("--berth-record and --berth-event-hints are both given: give one of the two, because the search for hints changes the work of decisions")
	case o.audit:
		return errors.New("--berth-record and --berth-audit are both given: give one of the two, because the audit changes the work of decisions")
	}
	return nil
}

// newRecorder creates the recording of --berth-record. It returns nil without the flag.
func (s *setup) newRecorder() (*recording.Writer, error) {
	o := s.options
	if o.record == "" {
		return nil, nil
	}
	var text bytes.Buffer
	if err := s.config.Write(&text); err != nil {
		return nil, err
	}
	gates, err := o.gates.Changed()
	if err != nil {
		return nil, err
	}
	name := "berth-" + time.Now().UTC().Format("20060102T150405.000000000Z")
	w, file, err := recording.Create(o.record, name, &recording.Header{
		Berth: Version(), Release: s.config.Release().String(), Config: text.Bytes(), Gates: gates,
		Seed: o.seed, MaxParked: o.deprecated.maxParked, GroupPatience: o.groupPatience, GroupRetries: o.groupRetries,
	}, int64(o.recordMiB)<<20, func(reason error) {
		s.log.Error(reason, "Recording has ended, scheduling goes on", "directory", o.record)
	})
	if err != nil {
		return nil, fmt.Errorf("--berth-record %q: %w", o.record, err)
	}
	s.log.Info("Recording the inputs of all decisions", "file", file)
	return w, nil
}

// closeRecording writes the rest of the recording. The loop must have ended.
func (p *pipeline) closeRecording() {
	if p.recorder == nil {
		return
	}
	if err := p.recorder.Close(); err != nil {
		klog.Background().Error(err, "Could not write the end of the recording")
	}
}
