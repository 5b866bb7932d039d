package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Stage is the common start of demos and measurements: a folder, a log, and a cluster
// with its data in the folder.
type Stage struct {
	*Cluster
	// Folder is removed at the end.
	Folder string
	// Log receives the processes' output.
	Log *os.File
}

// SetUp creates the folder and the log of a program, and starts a cluster with a number
// of nodes and further devcluster flags. The caller must call End.
func SetUp(ctx context.Context, program, bin string, nodes int, flags ...string) (*Stage, error) {
	folder, err := os.MkdirTemp("", "berth-"+program+"-")
	if err != nil {
		return nil, err
	}
	s := &Stage{Folder: folder}
	if s.Log, err = os.Create(filepath.Join(folder, program+".log")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	flags = append([]string{"--nodes", fmt.Sprint(nodes), "--data-dir", filepath.Join(folder, "cluster")}, flags...)
	if s.Cluster, err = StartCluster(ctx, bin, s.Log, flags...); err != nil {
		return nil, errors.Join(err, s.clear())
	}
	return s, nil
}

// End stops the cluster and removes the folder. It adds failures to err, the result of
// the program.
func (s *Stage) End(err *error) { *err = errors.Join(*err, s.Stop(), s.clear()) }

func (s *Stage) clear() error { return errors.Join(s.Log.Close(), os.RemoveAll(s.Folder)) }
