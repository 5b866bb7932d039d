// Command generate writes deploy/kustomize, which is made from the chart.
package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/berth-scheduler/berth/deploy/helm/test/chart"
)

func main() {
	slog.SetLogLoggerLevel(slog.LevelWarn) // Helm says of each file of deploy/monitoring that the chart has a link to it
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run writes the files beside the others in deploy/kustomize, of which it removes those that are made no longer.
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
