package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/manifest"
)

// checkOutput checks the flag --output.
func checkOutput(output string, known []string) error {
	if !slices.Contains(known, output) {
		return wrong{fmt.Errorf("--output %q: must be one of %s", output, strings.Join(known, ", "))}
	}
	return nil
}

// readInput reads what people wrote: the scheduler's configuration, the default one without a file, and the cluster.
func readInput(configFile string, files []string, stdin io.Reader, bar *progress) (*config.Config, *manifest.Cluster, error) {
	scheduler, err := loadConfig(configFile)
	if err != nil {
		return nil, nil, wrong{err}
	}
	cluster, err := manifest.Options{Progress: bar.reading}.Read(files, stdin)
	if err != nil {
		return nil, nil, wrong{err}
	}
	return scheduler, cluster, nil
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
