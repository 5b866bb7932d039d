package manifest

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// unit is a piece of a file that is decoded on its own: a document, or an element of a
// list. Units are independent, so they are decoded on all processors. Their order in the
// slice is the order of the result.
type unit struct {
	file  string
	line  int    // of the first byte of text, from 1
	place string // "items[3]" in a list, or ""
	text  []byte
	yaml  bool
	// dash is the column of the "-" that made this YAML an element of a list; -1 for
	// none.
	dash int
	// list is the kind of the list around it, if its items may omit their kind.
	list schema.GroupVersionKind
	// into is the namespace of objects that name none; nil means the default one.
	into    *Namespace
	customs []schema.GroupKind // kinds of custom resources to keep
	// found means that the unit is in a directory or an archive, so it may be no object.
	found bool
}

// document is one YAML document or JSON value, with its parts if it is a list that could
// be split.
type document struct {
	whole   unit
	items   []unit    // nil: decode whole
	skipped []Skipped // for an export, the objects without a unit
}

// each calls f with every unit of the document.
func (d *document) each(f func(*unit)) {
	f(&d.whole)
	for i := range d.items {
		f(&d.items[i])
	}
}

// documents splits a file, and returns the text in it that is no object.
func documents(file string, data []byte) (docs []document, skipped []noise) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	data, logs := withoutLogs(data)
	if logs != nil {
		skipped = append(skipped, *logs)
	}
	for line := 1; len(data) > 0; {
		text, rest := nextDocument(data)
		body, omitted := afterMarker(text)
		first := line + omitted
		if !blank(body) {
			d, n := readDocument(file, first, body)
			docs, skipped = append(docs, d...), append(skipped, n...)
		}
		line += bytes.Count(data[:len(data)-len(rest)], []byte("\n"))
		data = rest
	}
	return docs, skipped
}

// readDocument splits the text between two document markers: a sequence of JSON values,
// or a YAML document.
func readDocument(file string, line int, text []byte) (docs []document, skipped []noise) {
	if n := max(warnings(text), noiseBefore(text, false)); n > 0 {
		skipped = append(skipped, noiseIn(line, text[:n]))
		line += bytes.Count(text[:n], []byte("\n"))
		if text = text[n:]; blank(text) {
			return nil, skipped
		}
	}
	whole := unit{file: file, line: line, text: text, dash: -1}
	if looksJSON(text) {
		docs, noises, _ := readValues(whole)
		return docs, append(skipped, noises...)
	}
	if n := comments(text); looksJSON(text[n:]) {
		// JSON below a comment is YAML, but the YAML library reads only the first value.
		values := whole
		values.text, values.line = text[n:], line+bytes.Count(text[:n], []byte("\n"))
		if docs, noises, ok := readValues(values); ok {
			return docs, append(skipped, noises...)
		}
	}
	whole.yaml = true
	return []document{{whole: whole, items: splitYAML(whole)}}, skipped
}

// comments returns the length of the empty lines and comments at the beginning of a text.
func comments(text []byte) int {
	at := 0
	for at < len(text) {
		line := bytes.TrimSpace([]byte(firstLine(text[at:])))
		if len(line) > 0 && line[0] != '#' {
			break
		}
		end := bytes.IndexByte(text[at:], '\n')
		if end < 0 {
			return len(text)
		}
		at += end + 1
	}
	return at
}

// readValues reads a sequence of JSON values and the text between them that is no object.
// ok is false if the first value is broken.
func readValues(whole unit) (docs []document, skipped []noise, ok bool) {
	text, line := whole.text, whole.line
	ok = true
	s := scanner{text: text}
	for s.more() {
		start := s.at
		if n := s.noise(); n > 0 {
			skipped = append(skipped, noiseIn(line+bytes.Count(text[:start], []byte("\n")), text[start:start+n]))
			s.at += n
			continue
		}
		s.enormous = false
		h, err := s.headOf()
		if err != nil {
			s.at, ok = len(text), len(docs) > 0 // The end of a broken value is unknown.
		}
		part := whole
		part.line += bytes.Count(text[:start], []byte("\n"))
		part.text = text[start:s.at]
		doc := document{whole: part, items: splitJSON(part, h)}
		if h.export() {
			doc.items, doc.skipped = splitExport(part)
		}
		docs = append(docs, doc)
	}
	return docs, skipped, ok
}

// looksJSON distinguishes JSON from a YAML document that is a mapping in braces. Keys of
// the latter are seldom quoted.
func looksJSON(text []byte) bool {
	text = bytes.TrimLeft(text, " \t\r\n")
	if len(text) == 0 || text[0] != '{' {
		return false
	}
	text = bytes.TrimLeft(text[1:], " \t\r\n")
	return len(text) == 0 || text[0] == '"' || text[0] == '}'
}

// nextDocument splits data before the next line that is a YAML document marker. JSON has
// no such line, because its strings contain no newlines.
func nextDocument(data []byte) (text, rest []byte) {
	for at := 0; ; {
		next := bytes.Index(data[at:], []byte("\n"))
		if next < 0 {
			return data, nil
		}
		at += next + 1
		if marker(data[at:]) > 0 {
			return data[:at], data[at:]
		}
	}
}

// marker returns the length of the document marker at the beginning of data; 0 without
// one.
func marker(data []byte) int {
	if !bytes.HasPrefix(data, []byte("---")) && !bytes.HasPrefix(data, []byte("...")) {
		return 0
	}
	if len(data) == 3 || bytes.IndexByte([]byte(" \t\r\n"), data[3]) >= 0 {
		return 3
	}
	return 0
}

// afterMarker returns the text of a document after its marker, and the number of omitted
// lines.
func afterMarker(text []byte) (body []byte, lines int) {
	body = text[marker(text):]
	if end := bytes.IndexByte(body, '\n'); end >= 0 && len(trim(bytes.TrimRight(body[:end], "\r"))) == 0 && len(body) < len(text) {
		return body[end+1:], 1
	}
	return body, 0
}

// blank reports whether a document has only comments and directives.
func blank(text []byte) bool {
	for len(text) > 0 {
		line := text
		if end := bytes.IndexByte(text, '\n'); end >= 0 {
			line = text[:end]
		}
		text = text[min(len(text), len(line)+1):]
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// splitJSON splits a list with the head h. It returns nil if whole is no list or cannot
// be split.
func splitJSON(whole unit, h head) []unit {
	list, ok := h.list()
	if !ok {
		return nil
	}
	return elementsOf(whole, h.items, "items", list)
}

// list returns the kind of the list whose head is h.
func (h head) list() (schema.GroupVersionKind, bool) {
	if h.items < 0 || h.oddItems || !bytes.HasSuffix(h.kind, []byte("List")) {
		return schema.GroupVersionKind{}, false
	}
	return schema.FromAPIVersionAndKind(string(h.apiVersion), string(h.kind)), true
}

// splitYAML splits a list in the layout of kubectl and most people: "items:" in the first
// column, and each element begins with a dash in the same column. It returns nil for all
// other layouts. In unusual YAML a split may fall into a quoted text, or an alias may
// cross elements. Then an element cannot be parsed on its own, and the caller decodes the
// whole list.
func splitYAML(whole unit) []unit {
	l := layout(whole.text)
	if l.starts == nil {
		return nil
	}
	skeleton := append(append(append([]byte{}, whole.text[:l.items]...), "items: []\n"...), whole.text[l.end:]...)
	var y yamlReader
	js, err := y.json(unit{text: skeleton, yaml: true, dash: -1})
	if err != nil {
		return nil
	}
	s := scanner{text: js}
	h, err := s.headOf()
	list, ok := h.list()
	if err != nil || !ok {
		return nil
	}
	items := make([]unit, len(l.starts))
	for i, start := range l.starts {
		end := l.end
		if i+1 < len(l.starts) {
			end = l.starts[i+1].at
		}
		items[i] = unit{file: whole.file, line: whole.line + start.line, place: fmt.Sprintf("items[%d]", i), text: whole.text[start.at:end], yaml: true, dash: l.dash, list: list}
	}
	return items
}

// yamlLayout holds the positions of a YAML list's lines.
type yamlLayout struct {
	items  int // the start of the line "items:"
	end    int // the end of the elements
	dash   int // the column of the dashes
	starts []lineStart
}

type lineStart struct{ at, line int }

// layout finds the elements of a list. starts is nil if the text is no list or has
// another layout.
func layout(text []byte) yamlLayout {
	l := yamlLayout{items: -1, dash: -1}
	none := yamlLayout{}
	if oddBreaks(text) {
		return none
	}
	for at, line := 0, 0; at < len(text); line++ {
		s := text[at:]
		if end := bytes.IndexByte(s, '\n'); end >= 0 {
			s = s[:end+1]
		}
		column := indent(s)
		rest := bytes.TrimRight(s[column:], " \r\n")
		top := column == 0 && string(rest) == "items:"
		switch {
		case top && l.items >= 0:
			return none
		case top:
			l.items = at
		case l.items < 0 || l.end > 0 || len(rest) == 0 || rest[0] == '#':
		case rest[0] == '-' && (len(rest) == 1 || rest[1] == ' ') && (l.dash < 0 || column == l.dash):
			l.dash = column
			l.starts = append(l.starts, lineStart{at, line})
		case l.dash < 0:
			return none
		case column <= l.dash:
			if column > 0 {
				return none
			}
			l.end = at
		}
		at += len(s)
	}
	if l.end == 0 {
		l.end = len(text)
	}
	return l
}

// oddBreaks reports whether a line may end with other characters than "\n" or "\r\n": a
// "\r" alone, or U+0085, U+2028 and U+2029, which end lines in YAML 1.1.
func oddBreaks(text []byte) bool {
	return bytes.Count(text, []byte("\r")) != bytes.Count(text, []byte("\r\n")) ||
		bytes.Contains(text, []byte("\u0085")) || bytes.Contains(text, []byte("\u2028")) || bytes.Contains(text, []byte("\u2029"))
}
