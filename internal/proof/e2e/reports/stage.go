package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/proof/e2e/rig"
)

// The schedulers that reports are played with.
const (
	berth         = "berth"
	kubeScheduler = "kube-scheduler"
)

// berthPatience allows for a busy machine. It is still far less than the five minutes
// after which a forgotten pod is retried. With kube-scheduler, which forgets many pods, a
// run would take too long.
const berthPatience = 30 * time.Second

// gates are the feature gates of pod groups.
const gates = "--feature-gates=GenericWorkload=true"

// perform starts a cluster and a scheduler, plays the reports and returns their outcomes
// by name.
//
// The cluster has no controllers and no agent for nodes. These would undo parts of a
// scene, such as the phase of a claim, and end a pod at once that is to end slowly.
func perform(ctx context.Context, bin, scheduler string, reports []*Report) (outcomes map[string]string, err error) {
	s, err := rig.SetUp(ctx, "reports", bin, 0, "--with-kwok=false", "--without-controllers",
		gates, "--runtime-config", "scheduling.k8s.io/v1beta1=true")
	if err != nil {
		return nil, err
	}
	defer s.End(&err)
	config := filepath.Join(s.Folder, "scheduler.yaml")
	if err := configure(config, s.SchedulerKubeconfig, reports); err != nil {
		return nil, err
	}
	args := []string{"--config", config, "--secure-port=0", gates}
	if scheduler == berth {
		args = append([]string{"scheduler"}, args...)
	}
	process, err := rig.Start(s.Log, filepath.Join(bin, scheduler), args...)
	if err != nil {
		return nil, err
	}
	defer process.End()
	access, err := rig.Config(s.Kubeconfig)
	if err != nil {
		return nil, err
	}
	access.ContentType = ""                   // objects of any kind are JSON
	access.WarningHandler = rest.NoWarnings{} // about the version of PodGroups
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	where := &stage{client: client, dynamic: objects}
	if scheduler == berth {
		where.patience = berthPatience
	}
	outcomes, err = playAll(ctx, where, reports)
	if failure := process.Failure(); failure != nil {
		err = errors.Join(err, fmt.Errorf("%s ended: %w\n%s", scheduler, failure, process.Log()))
	}
	return outcomes, err
}

// playAll plays the reports that need an empty cluster first, and then the others in
// parallel.
//
// The scenes of the others are set before the first pod is to be scheduled. A later node
// would wake the pods of other reports, and hide that they were forgotten.
func playAll(ctx context.Context, s *stage, reports []*Report) (map[string]string, error) {
	p := &playing{outcomes: map[string]string{}}
	lanes := map[string][]*played{}
	for _, r := range reports {
		if r.Alone {
			outcome, err := s.playAlone(ctx, r)
			p.keep(r, outcome, err)
		}
	}
	for _, r := range reports {
		if r.Alone {
			continue
		}
		begun, err := s.begin(ctx, r)
		if err != nil {
			p.keep(r, "", err)
			continue
		}
		lanes[r.lane()] = append(lanes[r.lane()], begun)
	}
	settle()
	var done sync.WaitGroup
	for _, inTurn := range lanes {
		done.Go(func() {
			for _, begun := range inTurn {
				outcome, err := begun.finish(ctx)
				p.keep(begun.Report, outcome, err)
			}
		})
	}
	done.Wait()
	return p.outcomes, errors.Join(p.failures...)
}

// playAlone plays a report and leaves the cluster empty.
func (s *stage) playAlone(ctx context.Context, r *Report) (string, error) {
	begun, err := s.begin(ctx, r)
	if err != nil {
		return "", err
	}
	settle()
	outcome, err := begun.finish(ctx)
	return outcome, errors.Join(err, begun.clear(ctx))
}

// playing collects outcomes.
type playing struct {
	mu       sync.Mutex
	outcomes map[string]string
	failures []error
}

func (p *playing) keep(r *Report, outcome string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.outcomes[r.Name] = outcome
	p.failures = append(p.failures, err)
}

// settle gives a scheduler time to see the last writes.
func settle() { time.Sleep(time.Second) }

// configure writes a configuration with the profiles of all reports. Backoffs are short,
// so that a pod that waits longer must have been forgotten.
func configure(file, kubeconfig string, reports []*Report) error {
	profiles := []map[string]any{{"schedulerName": "default-scheduler"}}
	for _, r := range reports {
		if r.Profile != nil {
			profile := maps.Clone(r.Profile)
			profile["schedulerName"] = r.Name
			profiles = append(profiles, profile)
		}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection":     map[string]any{"kubeconfig": kubeconfig, "qps": 1000, "burst": 1000},
		"leaderElection":       map[string]any{"leaderElect": false},
		"podMaxBackoffSeconds": 1,
		"profiles":             profiles,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}
