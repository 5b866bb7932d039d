package main

import (
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/manifest"
)

// input is what the flags say of commands that work on files.
type input struct {
	files  []string
	config string
	output string

	filesFlag string   // as people write it
	outputs   []string // the ways to print
}

// newInput declares the flags. filesFlag names the files, short in a letter or not at all.
func newInput(flags *pflag.FlagSet, filesFlag, short string, outputs []string) *input {
	in := &input{filesFlag: "--" + filesFlag, outputs: outputs}
	if short != "" {
		in.filesFlag = "-" + short
	}
	flags.StringArrayVarP(&in.files, filesFlag, short, nil, "A file or directory with the cluster's objects, YAML or JSON; - is standard input. May be given several times.")
	flags.StringVar(&in.config, "config", "", "The scheduler's configuration file (KubeSchedulerConfiguration); the default configuration without it.")
	flags.StringVarP(&in.output, "output", "o", "table", "How to print: "+strings.Join(outputs, ", ")+".")
	return in
}

// read reads what people wrote: the scheduler's configuration, the default one without a file, and the cluster.
func (in *input) read(stdin io.Reader, bar *progress) (*config.Config, *manifest.Cluster, error) {
	if !slices.Contains(in.outputs, in.output) {
		return nil, nil, wrong{fmt.Errorf("--output %q: must be one of %s", in.output, strings.Join(in.outputs, ", "))}
	}
	if len(in.files) == 0 {
		return nil, nil, wrong{fmt.Errorf("no file is given: name the cluster's files with %s, or - for standard input", in.filesFlag)}
	}
	scheduler, err := loadConfig(in.config)
	if err != nil {
		return nil, nil, wrong{err}
	}
	cluster, err := manifest.Options{Progress: bar.reading}.Read(in.files, stdin)
	if err != nil {
		return nil, nil, wrong{err}
	}
	return scheduler, cluster, nil
}

// shortRun has garbage collected four times as seldom while a command runs, for a third off its time and some memory. It returns what ends
// that.
func shortRun() func() {
	before := debug.SetGCPercent(400)
	return func() { debug.SetGCPercent(before) }
}

func loadConfig(file string) (*config.Config, error) {
	if file == "" {
		return config.Default()
	}
	return config.Load(file)
}

// notes says what was not taken into account.
func notes(w io.Writer, scheduler *config.Config, cluster *manifest.Cluster) {
	for _, warning := range cluster.Warnings {
		fmt.Fprintf(w, "Note: %s\n", warning)
	}
	var kinds []string
	for _, s := range cluster.Skipped {
		kinds = append(kinds, fmt.Sprintf("%d %s (%s)", s.Count, s.Kind, s.APIVersion))
	}
	if len(kinds) > 0 {
		fmt.Fprintf(w, "Note: scheduling does not read these, and they were left out: %s\n", strings.Join(kinds, ", "))
	}
	if len(scheduler.Missing) > 0 {
		fmt.Fprintf(w, "Note: these plugins are enabled, and have no effect yet: %s\n", strings.Join(scheduler.Missing, ", "))
	}
}
