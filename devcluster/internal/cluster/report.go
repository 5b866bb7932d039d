package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Report describes a ready cluster as one line of JSON.
type Report struct {
	// Kubeconfig is an administrator's file.
	Kubeconfig string `json:"kubeconfig"`
	// SchedulerKubeconfig is the user system:kube-scheduler's file.
	SchedulerKubeconfig string `json:"schedulerKubeconfig"`
	// Server is the API server's URL.
	Server string `json:"server"`
	// DataDir is the folder with data, logs and this report in ready.json.
	DataDir string `json:"dataDir"`
	// Nodes is the number of nodes of the cluster.
	Nodes int `json:"nodes"`
	// PIDs are the process ids of the components by name.
	PIDs map[string]int `json:"pids"`
}

// announce reports that the cluster is ready, on standard output last: by then all files
// exist.
func (c *cluster) announce(ctx context.Context) error {
	if err := c.copyKubeconfig(); err != nil {
		return err
	}
	line, err := c.record(ctx)
	if err != nil {
		return err
	}
	if _, err := c.out.Write(line); err != nil {
		return fmt.Errorf("print the ready line: %w", err)
	}
	return nil
}

func (c *cluster) copyKubeconfig() error {
	if c.options.KubeconfigOut == "" {
		return nil
	}
	content, err := os.ReadFile(c.layout.kubeconfig(admin))
	if err == nil {
		err = replaceFile(c.options.KubeconfigOut, content)
	}
	if err != nil {
		return fmt.Errorf("copy the kubeconfig: %w", err)
	}
	return nil
}

// record writes the current report to its files and returns its line.
func (c *cluster) record(ctx context.Context) ([]byte, error) {
	line, err := c.report(ctx)
	if err != nil {
		return nil, err
	}
	for _, file := range []string{c.layout.path(readyName), c.options.ReadyFile} {
		if file == "" {
			continue
		}
		if err := replaceFile(file, line); err != nil {
			return nil, fmt.Errorf("write the ready file: %w", err)
		}
	}
	return line, nil
}

func (c *cluster) report(ctx context.Context) ([]byte, error) {
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("count the nodes: %w", err)
	}
	line, err := json.Marshal(Report{
		Kubeconfig:          c.layout.kubeconfig(admin),
		SchedulerKubeconfig: c.layout.kubeconfig(scheduler),
		Server:              url(c.ports.apiServer),
		DataDir:             c.layout.dir,
		Nodes:               len(nodes.Items),
		PIDs:                c.children.PIDs(),
	})
	if err != nil {
		return nil, fmt.Errorf("write the report: %w", err)
	}
	return append(line, '\n'), nil
}

// replaceFile writes a file that a reader sees either whole or not at all.
func replaceFile(file string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+"-")
	if err != nil {
		return err
	}
	_, err = temporary.Write(content)
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary.Name(), file)
	}
	if err != nil {
		os.Remove(temporary.Name())
	}
	return err
}
