// Package supervise runs child processes and reports the deaths among them.
//
// It takes commands. It returns process ids, and a Death for every child that exits on
// its own. It owns the children and their log files: no child outlives Stop, and on Linux
// none outlives the parent, even a killed parent. It never interprets a child's work.
package supervise

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// stopGrace is the time before a stopping child is killed.
const stopGrace = 5 * time.Second

// tailLines is the number of log lines in an error.
const tailLines = 15

// Command is a child's command: the supervisor's executable with Args. Name is unique and
// names the log file.
type Command struct {
	Name string
	Args []string
}

// Death reports a child that exited on its own.
type Death struct {
	Name string
	Err  error
	tail string
}

// Error quotes the end of the child's log.
func (d *Death) Error() string {
	return fmt.Sprintf("%s ended unexpectedly: %v%s", d.Name, d.Err, d.tail)
}

// Unwrap returns the error of the process.
func (d *Death) Unwrap() error {
	return d.Err
}

// Supervisor runs children. All methods are safe for concurrent use, but Start, Restart
// and Stop only one at a time.
type Supervisor struct {
	executable string
	logDir     string
	deaths     chan *Death
	launches   chan launch

	mu       sync.Mutex
	children []*child // in the order of their first start
}

// launch is a request to the launcher's thread to start a process.
type launch struct {
	cmd    *exec.Cmd
	result chan<- error
}

// child is one process. Its waiter writes err before it closes ended.
type child struct {
	command Command
	process *os.Process
	ended   chan struct{}
	err     error

	mu    sync.Mutex
	asked bool // Stop or Restart ended it
}

// New returns a supervisor whose children run executable and log to logDir/NAME.log.
func New(executable, logDir string) *Supervisor {
	s := &Supervisor{
		executable: executable,
		logDir:     logDir,
		deaths:     make(chan *Death, 16),
		launches:   make(chan launch),
	}
	go s.launcher()
	return s
}

// launcher starts all processes from one thread that lives until the end of Stop. A child
// is tied to the thread that started it, not to the process, and the runtime may end an
// idle thread at any time.
func (s *Supervisor) launcher() {
	runtime.LockOSThread()
	for l := range s.launches {
		l.result <- l.cmd.Start()
	}
}

// Deaths receives every child that exited on its own, not by Restart or Stop.
func (s *Supervisor) Deaths() <-chan *Death {
	return s.deaths
}

// Start runs a command. Its output is appended to its log file.
func (s *Supervisor) Start(c Command) error {
	child, err := s.spawn(c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.children = append(s.children, child)
	return nil
}

// Restart kills the named child without warning and runs its command again.
func (s *Supervisor) Restart(name string) error {
	s.mu.Lock()
	i := slices.IndexFunc(s.children, func(c *child) bool { return c.command.Name == name })
	s.mu.Unlock()
	if i < 0 {
		return fmt.Errorf("restart %s: it does not run", name)
	}

	old := s.children[i]
	old.end(syscall.SIGKILL)
	<-old.ended
	fresh, err := s.spawn(old.command)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.children[i] = fresh
	return nil
}

// Stop ends all children, the newest first, and returns when none is left. The supervisor
// cannot be used afterwards.
func (s *Supervisor) Stop() {
	s.mu.Lock()
	children := slices.Clone(s.children)
	s.mu.Unlock()
	for _, c := range slices.Backward(children) {
		c.end(syscall.SIGTERM)
		select {
		case <-c.ended:
		case <-time.After(stopGrace):
			c.end(syscall.SIGKILL)
			<-c.ended
		}
	}
	close(s.launches)
}

// PIDs returns the process id of every child by name.
func (s *Supervisor) PIDs() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Collect(func(yield func(string, int) bool) {
		for _, c := range s.children {
			if !yield(c.command.Name, c.process.Pid) {
				return
			}
		}
	})
}

// Tail returns the last lines of the named child's log, after a line with the log's path;
// empty if there are none.
func (s *Supervisor) Tail(name string) string {
	file := s.logFile(name)
	content, err := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	if err != nil || lines[0] == "" {
		return ""
	}
	lines = lines[max(0, len(lines)-tailLines):]
	return fmt.Sprintf("\nthe end of %s:\n  %s", file, strings.Join(lines, "\n  "))
}

func (s *Supervisor) logFile(name string) string {
	return filepath.Join(s.logDir, name+".log")
}

func (s *Supervisor) spawn(c Command) (*child, error) {
	log, err := os.OpenFile(s.logFile(c.Name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", c.Name, err)
	}
	defer log.Close() // the child has its own descriptor

	cmd := exec.Command(s.executable, c.Args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = attributes()
	result := make(chan error)
	s.launches <- launch{cmd: cmd, result: result}
	if err := <-result; err != nil {
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}

	fresh := &child{command: c, process: cmd.Process, ended: make(chan struct{})}
	go s.await(fresh, cmd)
	return fresh, nil
}

func (s *Supervisor) await(c *child, cmd *exec.Cmd) {
	c.err = cmd.Wait()
	close(c.ended)
	if c.wasAsked() {
		return
	}
	err := c.err
	if err == nil {
		err = errors.New("exit status 0")
	}
	s.deaths <- &Death{Name: c.command.Name, Err: err, tail: s.Tail(c.command.Name)}
}

// end signals the child and marks its end as requested. An ended child gets no signal.
func (c *child) end(sig syscall.Signal) {
	c.mu.Lock()
	c.asked = true
	c.mu.Unlock()
	_ = c.process.Signal(sig)
}

func (c *child) wasAsked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}
