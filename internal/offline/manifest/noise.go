package manifest

import (
	"bytes"
	"fmt"
	"strings"
)

// noise is text of a file that is no object and is skipped.
type noise struct {
	line, lines int
	text        string // its first line
}

// `kubectl cluster-info dump` writes the logs of each container between these lines
// (package clusterinfo of k8s.io/kubectl). The second follows the log directly, on the
// same line if the log does not end with a newline.
const (
	logBegins = "==== START logs for container "
	logEnds   = "==== END logs for container "
)

// withoutLogs replaces the logs of a dump by their newlines. So no line of a log is
// mistaken for an object, and lines keep their numbers.
func withoutLogs(data []byte) ([]byte, *noise) {
	begin := logAt(data)
	if begin < 0 {
		return data, nil
	}
	logs := &noise{line: 1 + bytes.Count(data[:begin], []byte("\n"))}
	kept := make([]byte, 0, len(data))
	for ; begin >= 0; begin = logAt(data) {
		kept = append(kept, data[:begin]...)
		log := data[begin : begin+logLength(data[begin:])]
		if logs.text == "" {
			logs.text = firstLine(log)
		}
		lines := bytes.Count(log, []byte("\n"))
		logs.lines += lines
		kept = append(kept, bytes.Repeat([]byte("\n"), lines)...)
		data = data[begin+len(log):]
	}
	return append(kept, data...), logs
}

// logAt returns the offset of the next log; -1 without one.
func logAt(data []byte) int {
	if bytes.HasPrefix(data, []byte(logBegins)) {
		return 0
	}
	at := bytes.Index(data, []byte("\n"+logBegins))
	if at >= 0 {
		at++
	}
	return at
}

// logLength returns the length of the log at the beginning of data. It ends with the line
// that names the same container, or with data if the dump was cut short.
func logLength(data []byte) int {
	container := firstLine(data)[len(logBegins):]
	end := bytes.Index(data, []byte(logEnds+container))
	if end < 0 {
		return len(data)
	}
	if line := bytes.IndexByte(data[end:], '\n'); line >= 0 {
		return end + line + 1
	}
	return len(data)
}

// noiseBefore returns the length of the lines before the next JSON value of a text; 0 if
// they may belong to an object. With atEnd, a value need not follow.
func noiseBefore(text []byte, atEnd bool) int {
	seen := false
	for at := 0; at < len(text); {
		line := firstLine(text[at:])
		switch {
		case looksJSON([]byte(line)) || line == "{":
			if seen {
				return at
			}
			return 0
		case isField(line):
			return 0
		case len(bytes.TrimSpace([]byte(line))) == 0 || line[0] == '#':
		case !seen && strings.ContainsRune("[]{},:\"", rune(line[0])):
			return 0 // broken JSON
		default:
			seen = true
		}
		at += len(line) + 1
	}
	if seen && atEnd {
		return len(text)
	}
	return 0
}

// isField reports whether a line begins with a field of objects in YAML.
func isField(line string) bool {
	for _, field := range []string{"apiVersion:", "kind:", "metadata:", "items:", "spec:", "- "} {
		if len(line) >= len(field) && line[:len(field)] == field {
			return true
		}
	}
	return false
}

// warnings returns the length of the lines at the beginning of a text that kubectl writes
// to standard error. A redirection of both streams puts them before the objects.
func warnings(text []byte) int {
	at := 0
	for bytes.HasPrefix(text[at:], []byte("Warning: ")) || bytes.HasPrefix(text[at:], []byte("Flag --")) {
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			return len(text)
		}
		at += end + 1
	}
	return at
}

func firstLine(text []byte) string {
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		text = text[:end]
	}
	return string(text)
}

// noiseIn returns a text as noise.
func noiseIn(line int, text []byte) noise {
	return noise{line: line, lines: max(1, bytes.Count(text, []byte("\n"))), text: firstLine(bytes.TrimLeft(text, " \t\r\n"))}
}

// noise adds a warning about the noise of a file.
func (g *gathering) noise(file string, all []noise) {
	if len(all) == 0 {
		return
	}
	lines := 0
	for _, n := range all {
		lines += n.lines
	}
	g.cluster.Warnings = append(g.cluster.Warnings, fmt.Sprintf("%s:%d: skipped text that is not an object: %s, the first %q",
		file, all[0].line, count(lines, "line"), sample([]byte(all[0].text))))
}
