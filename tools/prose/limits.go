package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
)

const header = `# Packages and pages above the goal of the prose gate: markers of dialect per 1,000 words (goal 5),
# sentences of more than 40 words (goal 0), lines that are too wide (goal 0). "make prose-update"
# lowers the numbers; no number rises, and no line is added.
`

// readLimits reads the list. Without a file it returns nil, and no limit is above the
// goal.
func readLimits(file string) (map[string]numbers, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	limits, row := map[string]numbers{}, 0
	for line := range strings.Lines(string(text)) {
		row++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		var name string
		var n numbers
		if _, err := fmt.Sscan(line, &name, &n.markers, &n.sentences, &n.lines); err != nil {
			return nil, fmt.Errorf("%s:%d: want a path and three numbers, got %q", file, row, line)
		}
		limits[name] = n
	}
	return limits, nil
}

// lowered returns the limits, lowered to the present numbers. Packages and pages that
// have reached the goal, or are gone, are left out. Without limits, as for a new list,
// the result is the present numbers.
func lowered(limits map[string]numbers, rooms map[string]*room) map[string]numbers {
	low := map[string]numbers{}
	for name, r := range rooms {
		n := r.numbers()
		if limit := limits[name].orGoal(); limits != nil {
			n = numbers{min(n.markers, limit.markers), min(n.sentences, limit.sentences), min(n.lines, limit.lines)}
		}
		if n.markers > markersMax || n.sentences > 0 || n.lines > 0 {
			low[name] = n
		}
	}
	return low
}

func writeLimits(file string, limits map[string]numbers) error {
	var text strings.Builder
	text.WriteString(header)
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		n := limits[name]
		fmt.Fprintf(&text, "%s %d %d %d\n", name, n.markers, n.sentences, n.lines)
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}
