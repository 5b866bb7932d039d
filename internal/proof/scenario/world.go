package scenario

import (
	"errors"
	"fmt"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/config/feature"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// world is the state of a run.
type world struct {
	cluster *simulate.Cluster
	// decided are the pods of all decisions since the step began, in order.
	decided []model.PodKey
	// nominating are the last decisions of the step that nominated their pod.
	nominating map[model.PodKey]plan.Decision
}

// note records a round's decisions.
func (w *world) note(r simulate.Round) error {
	for _, d := range r.Decisions {
		w.decided = append(w.decided, d.Pod.Key())
		if d.NominationOf(d.Pod).Mode == plan.Set {
			w.nominating[d.Pod.Key()] = d
		}
	}
	return nil
}

// Run runs the scenario with the answers of a release. The error joins the failed
// expectations of the first step with any, or names the command that failed.
func (s *Scenario) Run(release config.Release) error {
	scheduler, err := s.scheduler(release)
	if err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	cluster, err := simulate.New(simulate.Config{Scheduler: scheduler, Seed: s.seed, Volumes: s.volumes, Devices: s.devices, GroupPatience: simulate.DefaultGroupPatience, GroupRetries: simulate.DefaultGroupRetries})
	if err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	w := &world{cluster: cluster}
	for i := range s.steps {
		if err := s.run(w, &s.steps[i], release); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scenario) scheduler(release config.Release) (*config.Config, error) {
	gates, err := feature.With(s.gates)
	if err != nil {
		return nil, err
	}
	request := config.Request{Gates: gates, Release: release}
	if s.config == nil {
		return config.Read(request)
	}
	return config.ParseWith("config", s.config, request)
}

// run executes the commands of one step and runs the scheduler until it is idle at the
// present time.
func (s *Scenario) run(w *world, step *step, release config.Release) error {
	w.decided, w.nominating = nil, map[model.PodKey]plan.Decision{}
	for _, c := range step.commands {
		if err := c.do(w); err != nil {
			return &lineError{s.file, c.line, err}
		}
	}
	if err := w.cluster.Settle(w.note); err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	var errs []error
	for _, e := range step.expectations {
		if e.release != 0 && e.release != release {
			continue
		}
		if err := e.check(w); err != nil {
			errs = append(errs, &lineError{s.file, e.line, err})
		}
	}
	return errors.Join(errs...)
}
