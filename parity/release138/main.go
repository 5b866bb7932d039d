// Release138 answers parity's questions with kube-scheduler 1.38, on its standard input
// and output. It decides nothing itself, and ends with its input.
package main

import (
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/parity/internal/remote"
)

func main() {
	klog.SetLogger(logr.Discard()) // kube-scheduler's code logs every configuration
	if err := remote.Serve(remote.Pipe{Reader: os.Stdin, WriteCloser: os.Stdout}); err != nil {
		fmt.Fprintf(os.Stderr, "release138: %v\n", err)
		os.Exit(1)
	}
}
