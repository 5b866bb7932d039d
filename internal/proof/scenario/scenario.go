package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// Scenario is one parsed file.
type Scenario struct {
	// Title is the comment at the head of the file: the subject of the test, and its
	// reason.
	Title string
	file  string
	seed  uint64
	// config is a KubeSchedulerConfiguration in YAML; empty means the default one.
	config []byte
	// gates are the feature gates that differ from their defaults.
	gates map[string]bool
	// volumes configures the binding and provisioning of volumes.
	volumes simulate.Volumes
	// devices configures the care of ResourceClaims.
	devices simulate.Devices
	steps   []step
}

// step is a list of commands, which may advance the time, and the expectations after
// them.
type step struct {
	commands     []command
	expectations []expectation
}

// command changes the world.
type command struct {
	line int
	do   func(w *world) error
}

// expectation checks the world. Its error describes the actual state.
type expectation struct {
	line  int
	check func(w *world) error
	// release is the only release with this answer; 0 means all.
	release config.Release
}

// lineError is a mistake in a scenario, or an expectation that does not hold.
type lineError struct {
	file string
	line int
	err  error
}

func (e *lineError) Error() string { return fmt.Sprintf("%s:%d: %v", e.file, e.line, e.err) }
func (e *lineError) Unwrap() error { return e.err }

// The lines that separate the parts of a file.
const (
	expectMark = "----"
	stepMark   = "===="
	blockEnd   = "end"
)

// Parse reads a scenario. The error joins all mistakes, with file as the file's name.
func Parse(file string, text []byte) (*Scenario, error) {
	p := &parser{
		scenario: &Scenario{file: file},
		lines:    strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"),
	}
	p.parse()
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	return p.scenario, nil
}

// parser reads the lines of a file.
type parser struct {
	scenario *Scenario
	lines    []string
	at       int // the line being read, counted from 0
	// expecting is set while lines are expectations. started is set after the first
	// command other than a setting.
	expecting, started bool
	errs               []error
}

func (p *parser) parse() {
	p.title()
	p.scenario.steps = []step{{}}
	for ; p.at < len(p.lines); p.at++ {
		line := strings.TrimSpace(p.lines[p.at])
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case line == expectMark && p.expecting:
			p.fail("a second %q; %q starts the next step", expectMark, stepMark)
		case line == expectMark:
			p.expecting, p.started = true, true
		case strings.HasPrefix(line, stepMark):
			if !p.expecting || len(p.step().expectations) == 0 {
				p.fail("the step before expects nothing; want %q and an expectation", expectMark)
			}
			p.scenario.steps = append(p.scenario.steps, step{})
			p.expecting = false
		case p.expecting:
			p.expectation(line)
		default:
			p.command(line)
		}
	}
	if len(p.step().expectations) == 0 {
		p.at = len(p.lines) - 1
		p.fail("the last step expects nothing; want %q and an expectation", expectMark)
	}
}

// title reads the comment at the head.
func (p *parser) title() {
	var words []string
	for ; p.at < len(p.lines) && strings.HasPrefix(p.lines[p.at], "#"); p.at++ {
		words = append(words, strings.TrimSpace(strings.TrimPrefix(p.lines[p.at], "#")))
	}
	if p.scenario.Title = strings.Join(words, " "); p.scenario.Title == "" {
		p.fail("the first line must be a comment that says what is tested and why, such as \"# A full node is left alone.\"")
	}
}

func (p *parser) step() *step { return &p.scenario.steps[len(p.scenario.steps)-1] }

func (p *parser) fail(format string, args ...any) {
	p.errs = append(p.errs, p.errorAt(p.at+1, fmt.Errorf(format, args...)))
}

func (p *parser) errorAt(line int, err error) error {
	return &lineError{file: p.scenario.file, line: line, err: err}
}

// command reads a line before the expectations.
func (p *parser) command(line string) {
	number := p.at + 1
	words := strings.Fields(line)
	s, args, err := statementOf(words)
	if err != nil {
		p.fail("%w", err)
		return
	}
	var body string
	if s.block != nil && s.block(args) {
		if body, err = p.block(); err != nil {
			p.errs = append(p.errs, p.errorAt(number, err))
			return
		}
	}
	if s.setting != nil {
		if p.started {
			p.fail("%q must come before everything else", s.word)
			return
		}
		err = s.setting(p.scenario, args, body)
	} else {
		p.started = true
		var do func(*world) error
		if do, err = s.command(args, body); err == nil {
			p.step().commands = append(p.step().commands, command{number, do})
		}
	}
	if err != nil {
		p.errs = append(p.errs, p.errorAt(number, fmt.Errorf("%s: %w", s.word, err)))
	}
}

// block reads the lines up to "end".
func (p *parser) block() (string, error) {
	from := p.at + 1
	for p.at++; p.at < len(p.lines); p.at++ {
		if strings.TrimSpace(p.lines[p.at]) == blockEnd {
			return strings.Join(p.lines[from:p.at], "\n") + "\n", nil
		}
	}
	return "", fmt.Errorf("the block that starts here has no line %q", blockEnd)
}

// expectation reads a line after the mark. A release in brackets may come first.
func (p *parser) expectation(line string) {
	var only config.Release
	if text, rest, ok := strings.Cut(strings.TrimPrefix(line, "["), "] "); ok && line[0] == '[' {
		var err error
		if only, err = config.ParseRelease(text); err != nil {
			p.fail("release %w", err)
			return
		}
		line = strings.TrimSpace(rest)
	}
	check, err := expectationOf(line)
	if err != nil {
		p.fail("%w", err)
		return
	}
	p.step().expectations = append(p.step().expectations, expectation{p.at + 1, check, only})
}

// oneOf lists the allowed words, for errors.
func oneOf(words []string) string {
	sorted := slices.Sorted(slices.Values(words))
	return strings.Join(sorted, ", ")
}
