package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/internal/offline/manifest"
	"github.com/berth-scheduler/berth/internal/offline/workload"
)

// workloads are the flags of commands that make the pods of workloads in files.
type workloads struct {
	scale, templates, runs []string
	// one makes one pod for each workload, as a sample of its pods.
	one  bool
	made *workload.Report // after reading
}

// makePods declares the flags, and enables the pods of workloads.
func (in *input) makePods(flags *pflag.FlagSet, one bool) {
	in.workloads = &workloads{one: one}
	if !one {
		flags.StringArrayVar(&in.workloads.scale, "scale", nil,
			"Set the replicas of a workload in the files, as NAMESPACE/NAME=N or KIND/NAMESPACE/NAME=N. May be given several times.")
		flags.StringArrayVar(&in.workloads.runs, "run-cronjob", nil,
			"Run a CronJob of the files once, as NAMESPACE/NAME. May be given several times.")
	}
	flags.StringArrayVar(&in.workloads.templates, "pod-template", nil,
		"Path of the pod templates in a kind of custom resource, as KIND.GROUP=PATH, such as Rollout.argoproj.io=spec.template. "+
			"May be given several times.")
}

// options returns the values of the flags.
func (w *workloads) options() (workload.Options, error) {
	o := workload.Options{One: w.one, Runs: w.runs}
	var errs []error
	for _, text := range w.scale {
		s, err := workload.ParseScale(text)
		o.Scale, errs = append(o.Scale, s), append(errs, err)
	}
	for _, text := range w.templates {
		t, err := workload.ParseTemplate(text)
		o.Templates, errs = append(o.Templates, t), append(errs, err)
	}
	return o, errors.Join(errs...)
}

// readFiles reads the files, with the custom resources that have pod templates.
func (in *input) readFiles(options manifest.Options, stdin io.Reader) (*manifest.Cluster, error) {
	if in.workloads != nil {
		o, err := in.workloads.options()
		if err != nil {
			return nil, wrong{err}
		}
		options.Customs = o.Customs()
	}
	cluster, err := options.Read(in.files, stdin)
	if err != nil {
		return nil, wrong{err}
	}
	return cluster, nil
}

// expand adds the pods of the files' workloads, in commands that make them.
func (in *input) expand(cluster *manifest.Cluster) error {
	if in.workloads == nil {
		return nil
	}
	o, err := in.workloads.options()
	if err == nil {
		in.workloads.made, err = o.Expand(cluster)
	}
	if err != nil {
		return wrong{err}
	}
	return nil
}

// checkNoFiles rejects flags about workloads if no file is read.
func (in *input) checkNoFiles() error {
	if w := in.workloads; w != nil && len(w.scale)+len(w.runs)+len(w.templates) > 0 {
		return wrong{fmt.Errorf("--scale, --run-cronjob and --pod-template apply to workloads in files: name the files with %s", in.filesFlag)}
	}
	return nil
}

// noteMade notes which pods were made.
func (in *input) noteMade(w io.Writer) {
	if in.workloads == nil || in.workloads.made == nil {
		return
	}
	if text := in.workloads.made.Summary(); text != "" && !in.workloads.one {
		fmt.Fprintf(w, "Note: %s\n", text)
	}
	const most = 20
	notes := in.workloads.made.Notes
	for _, note := range notes[:min(len(notes), most)] {
		fmt.Fprintf(w, "Note: %s\n", note)
	}
	if more := len(notes) - most; more > 0 {
		fmt.Fprintf(w, "Note: more notes about workloads: %d\n", more)
	}
}
