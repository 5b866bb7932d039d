// Command times prints where the time of "make test" went.
//
// It reads the folder that timed/command fills: for each command a file with its real
// time, processor time and words, and for commands of go also the graph of their actions.
// It prints the slowest tests, compilations, links and commands, and the commands that
// wait most. The lanes of "make test" overlap, so the sums exceed the real time.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	seconds := flag.Int("real", 0, "real time of the whole run in `seconds`")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: times [-real SECONDS] FOLDER")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	commands, err := read(flag.Arg(0))
	if err != nil {
		fmt.Fprintln(os.Stderr, "times:", err)
		os.Exit(1)
	}
	report(os.Stdout, commands, time.Duration(*seconds)*time.Second)
}

// A cost is a named duration.
type cost struct {
	name string
	real time.Duration
}

// report prints the costs of the commands; nothing if no command was recorded.
func report(w io.Writer, commands []command, real time.Duration) {
	if len(commands) == 0 {
		return
	}
	var tests, builds, links, longest, waits []cost
	var cpu time.Duration
	for _, c := range commands {
		cpu += c.cpu
		longest = append(longest, cost{c.name, c.real})
		waits = append(waits, cost{fmt.Sprintf("of %d s: %s", seconds(c.real), c.name), max(c.real-c.cpu, 0)})
		for _, a := range c.actions {
			switch a.Mode {
			case "test run":
				tests = append(tests, cost{short(a.Package) + c.variant(), a.TimeDone.Sub(a.TimeStart)})
			case "build":
				builds = append(builds, cost{short(a.Package) + c.variant(), a.CmdReal})
			case "link":
				links = append(links, cost{short(a.Package) + c.variant(), a.CmdReal})
			}
		}
	}
	fmt.Fprintf(w, "\nWhere the time went: %d s of real time, %d s of processor time\n", seconds(real), seconds(cpu))
	section(w, "Tests by package", tests, 10)
	section(w, "Compilations", builds, 5)
	section(w, "Links", links, 3)
	section(w, "Waits: real time of commands without processor time", waits, 3)
	section(w, "Commands", longest, 5)
}

// section prints the sum of costs and the largest of them, as far as they take a second.
func section(w io.Writer, title string, costs []cost, most int) {
	var sum time.Duration
	count := 0
	for _, c := range costs {
		sum += c.real
		if c.real >= 10*time.Millisecond { // less is a result from the cache
			count++
		}
	}
	fmt.Fprintf(w, "%s: %d s in %d\n", title, seconds(sum), count)
	slices.SortStableFunc(costs, func(a, b cost) int { return cmp.Compare(b.real, a.real) })
	for _, c := range costs[:min(most, len(costs))] {
		if c.real >= time.Second {
			fmt.Fprintf(w, "%6d s  %s\n", seconds(c.real), c.name)
		}
	}
}

func seconds(d time.Duration) int { return int(d.Round(time.Second) / time.Second) }

// short removes the module's path from a package of this repository.
func short(name string) string {
	return strings.TrimPrefix(name, "github.com/berth-scheduler/berth/")
}
