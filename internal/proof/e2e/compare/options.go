package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-scheduler/berth/internal/proof/e2e/compare/scene"
)

// options are the values of the flags.
type options struct {
	bin                          string
	quick, list, resume          bool
	contenders                   []string
	shapes, workloads            []string
	nodes, largeNodes            int
	running                      []int
	pods, rounds                 int
	scale                        float64
	limit, calmLimit             time.Duration
	output, csv, svg             string
	chosenContenders             []contender
	chosenShapes, chosenWorkload []string
}

// The words for all and no names.
const (
	all  = "all"
	none = "none"
)

// largeShapes are the kinds of pods that also run with many nodes.
func largeShapes() []string { return []string{"plain", "mixed"} }

// makeQuick sets small values for all flags that were not given.
func (o *options) makeQuick(given func(flag string) bool) {
	small := options{nodes: 500, running: []int{0, 2000}, pods: 500, rounds: 1, shapes: []string{"plain", "spread", "mixed"}, scale: 0.05}
	for flag, set := range map[string]func(){
		"nodes":       func() { o.nodes = small.nodes },
		"large-nodes": func() { o.largeNodes = small.largeNodes },
		"running":     func() { o.running = small.running },
		"pods":        func() { o.pods = small.pods },
		"rounds":      func() { o.rounds = small.rounds },
		"shapes":      func() { o.shapes = small.shapes },
		"scale":       func() { o.scale = small.scale },
	} {
		if !given(flag) {
			set()
		}
	}
}

// check validates the flags and looks up their names.
func (o *options) check() error {
	for _, number := range []struct {
		flag  string
		value int
		least int
	}{
		{"--nodes", o.nodes, 3}, {"--large-nodes", o.largeNodes, 0}, {"--pods", o.pods, 1}, {"--rounds", o.rounds, 1},
	} {
		if number.value < number.least {
			return fmt.Errorf("%s %d: must be at least %d", number.flag, number.value, number.least)
		}
	}
	for _, n := range o.running {
		if n < 0 {
			return fmt.Errorf("--running %d: must be at least 0", n)
		}
	}
	switch {
	case len(o.running) == 0:
		return fmt.Errorf("--running: must name a number of running pods, such as 0")
	case o.scale <= 0 || o.scale > 10:
		return fmt.Errorf("--scale %v: must be greater than 0 and not above 10", o.scale)
	case o.limit <= 0:
		return fmt.Errorf("--round-limit %v: must be greater than 0, such as 20m", o.limit)
	case o.calmLimit < 0:
		return fmt.Errorf("--calm-limit %v: must be at least 0, such as 20s", o.calmLimit)
	case !slices.Contains([]string{"table", "json", "yaml"}, o.output):
		return fmt.Errorf("--output %q: must be table, json or yaml", o.output)
	case o.resume && o.csv == "":
		return fmt.Errorf("--resume: needs --csv, the file to go on from")
	}
	if err := o.checkRoom(); err != nil {
		return err
	}
	return o.lookUp()
}

// checkRoom rejects sizes that exceed the room on the nodes of the scenes, because the
// wait for the placement of all pods would not end.
func (o *options) checkRoom() error {
	const perNode = 60 // of the largest mixed pods
	most := slices.Max(o.running) + o.pods
	if most > o.nodes*perNode {
		return fmt.Errorf("--running and --pods: %d pods are more than %d nodes have room for, which is %d", most, o.nodes, o.nodes*perNode)
	}
	return nil
}

// lookUp finds the scenes and contenders that the flags name.
func (o *options) lookUp() error {
	for _, name := range o.contenders {
		i := slices.IndexFunc(contenders(), func(c contender) bool { return c.name == name && !c.restartOnly })
		if i < 0 {
			return fmt.Errorf("--contenders %q: must be binder, kube-scheduler or berth", name)
		}
		if slices.ContainsFunc(o.chosenContenders, func(c contender) bool { return c.name == name }) {
			return fmt.Errorf("--contenders %q: is named twice", name)
		}
		o.chosenContenders = append(o.chosenContenders, contenders()[i])
	}
	var err error
	o.chosenShapes, err = named("--shapes", o.shapes, scene.ShapeNames(), func(name string) []string {
		if slices.Contains(scene.ShapeNames(), name) {
			return []string{name}
		}
		return nil
	})
	if err != nil {
		return err
	}
	o.chosenWorkload, err = named("--workloads", o.workloads, scene.WorkloadNames(), func(name string) []string {
		var found []string
		for _, s := range scene.Workloads(name, o.scale) {
			found = append(found, s.Name)
		}
		return found
	})
	if err != nil || o.list {
		return err
	}
	if len(o.chosenShapes)+len(o.chosenWorkload) == 0 {
		return fmt.Errorf("--shapes and --workloads: are both none, so there is nothing to do")
	}
	return o.findBinaries()
}

// named resolves a list of names, in the order of the list.
func named(flag string, names, known []string, find func(name string) []string) ([]string, error) {
	if len(names) == 1 && names[0] == none {
		return nil, nil
	}
	if len(names) == 1 && names[0] == all {
		return known, nil
	}
	var chosen []string
	for _, name := range names {
		found := find(name)
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: there is no %q; there are %s; or all, or none", flag, name, strings.Join(known, ", "))
		}
		for _, f := range found {
			if !slices.Contains(chosen, f) {
				chosen = append(chosen, f)
			}
		}
	}
	return chosen, nil
}

func (o *options) findBinaries() error {
	binaries := []string{"devcluster"}
	for _, s := range o.scenes() {
		for _, c := range o.chosenContenders {
			if binary := c.binaryFor(s); binary != "" && !slices.Contains(binaries, binary) {
				binaries = append(binaries, binary)
			}
		}
	}
	for _, binary := range binaries {
		if _, err := os.Stat(filepath.Join(o.bin, binary)); err != nil {
			return fmt.Errorf("--bin %s: %w; `make %s` builds it", o.bin, err, filepath.Join("bin", binary))
		}
	}
	return nil
}

// scenes returns the scenes to run, grouped by site.
func (o *options) scenes() []*scene.Scene {
	var scenes []*scene.Scene
	for _, name := range o.chosenShapes {
		scenes = append(scenes, scene.Shapes(name, scene.Sizes{Nodes: o.nodes, Running: o.running, Pods: o.pods})...)
	}
	for _, name := range o.chosenShapes {
		if o.largeNodes > 0 && slices.Contains(largeShapes(), name) {
			scenes = append(scenes, scene.Shapes(name, scene.Sizes{Nodes: o.largeNodes, Running: []int{0}, Pods: o.pods})...)
		}
	}
	for _, name := range o.chosenWorkload {
		scenes = append(scenes, scene.Workloads(name, o.scale)...)
	}
	return scenes
}
