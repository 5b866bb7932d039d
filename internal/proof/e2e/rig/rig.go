// Package rig starts the cluster and schedulers for the demo, the comparison and the
// integration tests.
//
// It takes the folder of built binaries. It returns a running development cluster and
// schedulers as child processes, with their CPU time and memory, and free ports for them.
// It owns these processes and stops them. It never schedules anything itself, and the
// product never imports it.
package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Process is a child that the rig stops.
type Process struct {
	cmd    *exec.Cmd
	log    *tail
	exited chan struct{} // closed when the child is gone
	err    error         // the result of the process; valid once exited is closed
}

// start runs a binary. Its standard error goes to the log, and the end of it is kept for
// error messages.
func start(log io.Writer, stdout io.Writer, binary string, args ...string) (*Process, error) {
	p := &Process{cmd: exec.Command(binary, args...), log: &tail{to: log}, exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = stdout, p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Exited is closed when the process is gone.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Kill ends the process at once, as kill -9 does, and waits until it is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// Stop ends the process and waits. It returns an error if the process had already ended,
// failed, or had to be killed.
func (p *Process) Stop() error {
	select {
	case <-p.exited:
		return fmt.Errorf("%s ended by itself: %w\n%s", p.cmd.Path, p.failure(), p.log)
	default:
	}
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopWait):
		p.Kill()
		return fmt.Errorf("%s did not stop within %v", p.cmd.Path, stopWait)
	}
	if p.err != nil {
		return fmt.Errorf("stop %s: %w\n%s", p.cmd.Path, p.err, p.log)
	}
	return nil
}

// End ends the process and waits, whatever its exit code.
func (p *Process) End() {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(stopWait):
		p.Kill()
	}
}

// stopWait limits the time for a process to end. The cluster stops four components one
// after the other.
const stopWait = 30 * time.Second

// Signal sends a signal to the process.
func (p *Process) Signal(s syscall.Signal) { p.signal(s) }

func (p *Process) signal(s syscall.Signal) {
	// A process that is gone needs no signal.
	_ = p.cmd.Process.Signal(s)
}

func (p *Process) failure() error {
	if p.err == nil {
		return errors.New("exit code 0")
	}
	return p.err
}

// Failure returns the error of an ended process. It is nil without an error, or while the
// process runs.
func (p *Process) Failure() error {
	select {
	case <-p.exited:
		return p.err
	default:
		return nil
	}
}

// Log returns the end of the process's standard error.
func (p *Process) Log() string { return p.log.String() }

// Usage is the CPU time and memory of a process so far.
type Usage struct {
	CPU time.Duration
	// PeakBytes is the largest resident size so far.
	PeakBytes int64
}

// clockTicks is USER_HZ, the unit of CPU time in /proc on every architecture that Go
// supports.
const clockTicks = 100

// Usage reads the usage of the process so far, also after its end.
func (p *Process) Usage() (Usage, error) {
	select {
	case <-p.exited:
		if r, ok := p.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			return Usage{CPU: time.Duration(r.Utime.Nano() + r.Stime.Nano()), PeakBytes: r.Maxrss << 10}, nil
		}
	default:
	}
	return usageOf(p.cmd.Process.Pid)
}

// Usage returns the sum of all components' usage, including the sum of their peaks.
func (c *Cluster) Usage() (Usage, error) {
	var sum Usage
	for _, pid := range c.PIDs {
		u, err := usageOf(pid)
		if err != nil {
			return Usage{}, err
		}
		sum.CPU += u.CPU
		sum.PeakBytes += u.PeakBytes
	}
	return sum, nil
}

func usageOf(process int) (Usage, error) {
	pid := strconv.Itoa(process)
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return Usage{}, fmt.Errorf("read CPU time of process %s: %w", pid, err)
	}
	// The second field is the name in parentheses and may hold anything; utime and stime
	// are the 14th and 15th.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("read CPU time of process %s: %w", pid, err)
		}
		ticks += n
	}
	peak, err := peakBytes(pid)
	return Usage{CPU: time.Duration(ticks) * time.Second / clockTicks, PeakBytes: peak}, err
}

func peakBytes(pid string) (int64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return 0, fmt.Errorf("read memory of process %s: %w", pid, err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("read memory of process %s: no peak in its status", pid)
}

// Cluster is a running development cluster.
type Cluster struct {
	*Process
	Kubeconfig          string         `json:"kubeconfig"`
	SchedulerKubeconfig string         `json:"schedulerKubeconfig"`
	Nodes               int            `json:"nodes"`
	PIDs                map[string]int `json:"pids"`
	bin                 string
}

// StartCluster starts a development cluster from the binaries in bin and waits until it
// is ready.
func StartCluster(ctx context.Context, bin string, log io.Writer, args ...string) (*Cluster, error) {
	out, in := io.Pipe()
	p, err := start(log, in, filepath.Join(bin, "devcluster"), args...)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Process: p, bin: bin}
	ready := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, c)
		}
		ready <- err
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case err = <-ready:
	case <-p.exited:
		err = p.failure()
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		p.signal(syscall.SIGTERM)
		<-p.exited
		return nil, fmt.Errorf("start the development cluster: %w\n%s", err, p.log)
	}
	return c, nil
}

// StartBerth starts Berth as the cluster's only scheduler, with exactly a scheduler's
// permissions, without serving.
func (c *Cluster) StartBerth(log io.Writer, args ...string) (*Process, error) {
	return start(log, io.Discard, filepath.Join(c.bin, "berth"), append([]string{"scheduler", "--kubeconfig", c.SchedulerKubeconfig, "--leader-elect=false", "--secure-port=0"}, args...)...)
}

// StartKubeScheduler starts kube-scheduler instead of Berth, with the same permissions
// and a KubeSchedulerConfiguration. The folder of binaries must contain it.
func (c *Cluster) StartKubeScheduler(log io.Writer, config string) (*Process, error) {
	return start(log, io.Discard, filepath.Join(c.bin, "kube-scheduler"), "--config", config, "--secure-port=0")
}

// StartProvisioner starts the external provisioner of devcluster/provisioner, as an
// administrator.
func (c *Cluster) StartProvisioner(log io.Writer, args ...string) (*Process, error) {
	return start(log, io.Discard, filepath.Join(c.bin, "provisioner"), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
}

// StartDriver starts the DRA driver of devcluster/driver, as an administrator.
func (c *Cluster) StartDriver(log io.Writer, args ...string) (*Process, error) {
	return start(log, io.Discard, filepath.Join(c.bin, "driver"), append([]string{"--kubeconfig", c.Kubeconfig}, args...)...)
}

// Start starts another program.
func Start(log io.Writer, binary string, args ...string) (*Process, error) {
	return start(log, io.Discard, binary, args...)
}

// StartHelper starts another program with the cluster's scheduler kubeconfig as its last
// argument.
func (c *Cluster) StartHelper(log io.Writer, binary string, args ...string) (*Process, error) {
	return start(log, io.Discard, binary, append(args, c.SchedulerKubeconfig)...)
}

// Config returns a client configuration without rate limits.
func Config(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", kubeconfig, err)
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.DisableCompression = true
	return config, nil
}

// Client returns an administrator's client without rate limits.
func (c *Cluster) Client() (*kubernetes.Clientset, error) {
	config, err := Config(c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// tail forwards its input and keeps the end of it.
type tail struct {
	to   io.Writer
	mu   sync.Mutex
	kept []byte
}

// tailBytes is enough for the last few dozen lines of a log.
const tailBytes = 16 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if extra := len(t.kept) - tailBytes; extra > 0 {
		t.kept = append(t.kept[:0], t.kept[extra:]...)
	}
	if t.to != nil {
		_, _ = t.to.Write(b)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
