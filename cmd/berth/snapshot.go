package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-scheduler/berth/internal/offline/anonymize"
	"github.com/berth-scheduler/berth/internal/offline/live"
)

// snapshotFlags are the flags of snapshot.
type snapshotFlags struct {
	connection *connection
	file       string
	anonymize  bool
	key        string
}

func newSnapshotCommand() *cobra.Command {
	var f snapshotFlags
	cmd := &cobra.Command{
		Use:   "snapshot [-o FILE]",
		Short: "Write the cluster to a file that the other commands read",
		Long: `Write the cluster to a file that the other commands read with -f or --snapshot.

The file has every kind of object that scheduling reads, as JSON, with the fields that scheduling or a simulation
reads. It has no Secrets and ConfigMaps, no environments and commands of containers, no parameters of storage classes,
volumes and devices, and only annotations that scheduling reads. Objects are listed page by page, with your own
permissions. Kinds that you may not list are named on standard error, and are missing. With -n only the namespaced
objects of one namespace are written.

--anonymize replaces the words of all names, labels, images and taints, each word by the same other one wherever it
occurs. Texts of Kubernetes itself, numbers of up to four digits, amounts, versions, scheduler names, features of nodes,
and the attributes of devices stay. The number of the objects and their relations stay visible. A
snapshot with the same --anonymize-key has the same names; without it they differ each time.`,
		Example: `  # Write the cluster to a file, and ask about it later.
  kubectl berth snapshot -o cluster.json
  berth explain --snapshot cluster.json --pod shop/web-2

  # Attach the cluster to a bug report, without its names.
  kubectl berth snapshot --anonymize -o cluster.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return wrong{fmt.Errorf("%q takes no arguments, got %q: name the file with -o", cmd.CommandPath(), args)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	f.connection = newConnection(flags)
	flags.StringVarP(&f.file, "output", "o", "-", "File to write; - is standard output.")
	flags.BoolVar(&f.anonymize, "anonymize", false, "Replace names, labels, images and taints.")
	flags.StringVar(&f.key, "anonymize-key", "", "Secret text that decides the replacements (default: a random one).")
	_ = cmd.MarkFlagFilename("output", "json") // the flag exists
	return cmd
}

// run lists the cluster and writes it.
func (f *snapshotFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if f.key != "" && !f.anonymize {
		return wrong{errors.New("--anonymize-key: is for --anonymize, which is not given")}
	}
	if f.file == "" {
		return wrong{errors.New(`--output "": must be a file, or - for standard output`)}
	}
	access, err := f.connection.access()
	if err != nil {
		return err
	}
	bar := newProgress(stderr)
	defer bar.clear()
	request := live.Request{Access: access, Progress: bar.reading, Namespace: *f.connection.flags.Namespace}
	found, err := live.Snapshot(ctx, request)
	if err != nil {
		return fmt.Errorf("read the cluster: %w", err)
	}
	bar.clear()
	objects := found.Cluster.Objects()
	if len(objects) == 0 && slices.Contains(found.Forbidden, "pods") {
		if request.Namespace != "" {
			return fmt.Errorf("read the cluster: you may not list pods in namespace %q, so the snapshot would be empty: request the ClusterRole view there", request.Namespace)
		}
		return errors.New("read the cluster: you may not list pods in all namespaces, nor nodes, so the snapshot would be empty: " +
			"name a namespace that you may read with -n, or request the verb list on pods and nodes in a ClusterRole")
	}
	if err := f.write(stdout, objects); err != nil {
		return err
	}
	for _, name := range found.Forbidden {
		fmt.Fprintf(stderr, "Note: you may not list %s: they are missing in the snapshot\n", name)
	}
	if f.file != "-" {
		fmt.Fprintf(stderr, "Wrote %s to %s.\n", counted(len(objects), "object", "objects"), f.file)
	}
	return nil
}

// write writes the objects. A file appears complete or not at all.
func (f *snapshotFlags) write(stdout io.Writer, objects []runtime.Object) error {
	var change func([]byte) ([]byte, error)
	if f.anonymize {
		key := f.key
		if key == "" {
			key = rand.Text()
		}
		change = anonymize.New(key).Object
	}
	var err error
	if f.file == "-" {
		err = writeObjects(stdout, objects, change)
	} else {
		err = writeFile(f.file, func(w io.Writer) error { return writeObjects(w, objects, change) })
	}
	if err != nil {
		return fmt.Errorf("write the snapshot: %w", err)
	}
	return nil
}

// writeFile writes a file. The rename at the end makes the file appear complete.
func writeFile(file string, write func(io.Writer) error) error {
	part, err := os.CreateTemp(filepath.Dir(file), ".part-*")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // renamed on success
	if err := errors.Join(write(part), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), file)
}
