package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A command is a process that timed/command ran.
type command struct {
	name      string // folder and words
	real, cpu time.Duration
	actions   []action // of a command of go
}

// An action is a node of the graph that go writes with -debug-actiongraph. Go does not
// document its form; fields that go leaves out are zero.
type action struct {
	Mode, Package       string
	TimeStart, TimeDone time.Time
	CmdReal             time.Duration
}

// variant returns the suffix of packages under the race detector.
func (c *command) variant() string {
	if strings.Contains(c.name+" ", " -race ") {
		return " (race)"
	}
	return ""
}

// read returns the commands of a folder. Commands that were interrupted are left out.
func read(folder string) ([]command, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return nil, err
	}
	var all []command
	for _, file := range files {
		if strings.HasSuffix(file, ".json") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		c, ok := parse(string(text))
		if !ok {
			continue
		}
		if c.actions, err = actionsIn(file + ".json"); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// parse reads seconds of real, user and system time, and on the next line the words.
func parse(text string) (command, bool) {
	times, words, _ := strings.Cut(text, "\n")
	var wall, user, system float64
	if n, _ := fmt.Sscan(times, &wall, &user, &system); n < 3 || words == "" {
		return command{}, false
	}
	name := strings.Join(strings.Fields(words), " ")
	if len(name) > longest {
		name = name[:longest] + "…"
	}
	return command{name: name, real: duration(wall), cpu: duration(user + system)}, true
}

// longest is the number of bytes of a command's words that are printed.
const longest = 100

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// actionsIn reads a graph; none if go wrote none.
func actionsIn(file string) ([]action, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []action
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return all, nil
}
