// Command generate generates deploy/kustomize from the chart.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/berth-scheduler/berth/deploy/helm/test/chart"
)

func main() {
	// Helm logs each of the chart's links to files of deploy/monitoring
	slog.SetLogLoggerLevel(slog.LevelWarn)
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run writes the generated files beside the others in deploy/kustomize and removes
// obsolete ones.
func run() error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: generate CHART KUSTOMIZE, such as deploy/helm/berth deploy/kustomize")
	}
	files, err := chart.Kustomize(os.Args[1])
	if err != nil {
		return err
	}
	for _, folder := range []string{"base", "components", "overlays"} {
		if err := os.RemoveAll(filepath.Join(os.Args[2], folder)); err != nil {
			return err
		}
	}
	for name, content := range files {
		path := filepath.Join(os.Args[2], filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
