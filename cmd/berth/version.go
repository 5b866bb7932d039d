package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/app"
)

// kubernetes is the version of the kube-scheduler that the scheduler replaces.
const kubernetes = "1.37"

// version is the output of the version command.
type version struct {
	Version    string `json:"version"`
	Commit     string `json:"commit"`
	Kubernetes string `json:"kubernetes"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`
}

func newVersionCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args: func(cmd *cobra.Command, args []string) error {
			if err := cobra.NoArgs(cmd, args); err != nil {
				return wrong{err}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printVersion(cmd.OutOrStdout(), output, newVersion())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "Output format: table, json or yaml.")
	return cmd
}

// addVersionFlag adds --version to a command and its subcommands. The scheduler keeps
// kube-scheduler's own flag.
func addVersionFlag(cmd *cobra.Command) {
	if cmd.Flags().Lookup("version") == nil {
		cmd.Flags().Bool("version", false, "Print the version and exit.")
		cmd.Version = newVersion().String()
		cmd.SetVersionTemplate("{{.Version}}\n")
	}
	for _, sub := range cmd.Commands() {
		addVersionFlag(sub)
	}
}

func newVersion() version {
	return version{
		Version:    app.Version(),
		Commit:     app.Commit(),
		Kubernetes: kubernetes,
		GoVersion:  runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
	}
}

func (v version) String() string {
	return fmt.Sprintf("Berth %s (commit %s), compatible with kube-scheduler %s, built with %s for %s", v.Version, v.Commit, v.Kubernetes, v.GoVersion, v.Platform)
}

func printVersion(w io.Writer, output string, v version) error {
	switch output {
	case "table":
		_, err := fmt.Fprintln(w, v)
		return err
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(v)
	case "yaml":
		data, err := yaml.Marshal(v)
		if err != nil {
			return fmt.Errorf("print the version: %w", err)
		}
		_, err = w.Write(data)
		return err
	}
	return wrong{fmt.Errorf("--output %q: must be table, json or yaml", output)}
}
