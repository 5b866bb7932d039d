package manifest

import (
	"bytes"
	"strings"

	"sigs.k8s.io/yaml"
)

// block converts the YAML that kubectl prints to JSON: block mappings and sequences,
// plain and quoted scalars on one line, literal text.
//
// It exists for speed. It is ten times as fast as sigs.k8s.io/yaml, which first builds a
// tree of interface values. It rejects all other YAML, and the caller then uses
// sigs.k8s.io/yaml. Its result equals that package's (FuzzBlock), except that a duplicate
// key stays in the JSON for the strict decoder to report.
type block struct {
	text  []byte
	at    int // the start of the next line
	out   []byte
	open  []frame
	value bool // a key or a dash was read, but not its value
	// plain caches the JSON of plain scalars that are not obviously text.
	plain map[string]string
}

// frame is a mapping or a sequence that is still open.
type frame struct {
	column int
	seq    bool
	empty  bool
}

const (
	maxPlain = 1 << 16 // cached scalars
	maxKey   = 128     // Longer keys have other syntax and limits.
)

// json returns the text as JSON, valid until the next call. dash is the column of the "-"
// that made this text an element of a list, which counts as a space; -1 for none.
func (b *block) json(text []byte, dash int) ([]byte, bool) {
	b.text, b.at, b.out, b.open, b.value = text, 0, b.out[:0], b.open[:0], true
	if !printable(text) {
		return nil, false
	}
	for first := true; b.at < len(b.text); {
		line := b.line()
		column := indent(line)
		if first && dash >= 0 {
			column = dash + 1 + indent(line[dash+1:])
		}
		if column == len(line) || line[column] == '#' {
			first = first && dash < 0
			continue
		}
		first = false
		if !b.node(column, trim(line[column:])) {
			return nil, false
		}
	}
	if len(b.open) == 0 {
		return nil, false
	}
	b.close(-1)
	return b.out, true
}

// printable reports whether text is ASCII without special characters of YAML.
func printable(text []byte) bool {
	for _, c := range text {
		if c >= 0x7f || c < ' ' && c != '\n' {
			return false
		}
	}
	return true
}

// line reads the next line, without its newline.
func (b *block) line() []byte {
	rest := b.text[b.at:]
	if end := bytes.IndexByte(rest, '\n'); end >= 0 {
		b.at += end + 1
		return rest[:end]
	}
	b.at = len(b.text)
	return rest
}

func indent(line []byte) int {
	n := 0
	for n < len(line) && line[n] == ' ' {
		n++
	}
	return n
}

func trim(line []byte) []byte {
	for len(line) > 0 && line[len(line)-1] == ' ' {
		line = line[:len(line)-1]
	}
	return line
}

// node reads the text at column on a line of its own.
func (b *block) node(column int, rest []byte) bool {
	b.close(column)
	for {
		dash := rest[0] == '-' && (len(rest) == 1 || rest[1] == ' ')
		if dash && !b.dash(column) {
			return false
		}
		if !dash {
			return b.pair(column, rest)
		}
		if len(rest) == 1 {
			return true
		}
		skip := 1 + indent(rest[1:])
		column, rest = column+skip, rest[skip:]
		if rest[0] == '#' {
			return false
		}
		if key, _ := cut(rest); key == nil && !(rest[0] == '-' && (len(rest) == 1 || rest[1] == ' ')) {
			return b.scalar(rest)
		}
	}
}

// close ends all mappings and sequences that a line at column does not belong to.
func (b *block) close(column int) {
	for n := len(b.open); n > 0; n = len(b.open) {
		top := b.open[n-1]
		if top.column <= column {
			return
		}
		b.null()
		b.open = b.open[:n-1]
		if top.seq {
			b.out = append(b.out, ']')
		} else {
			b.out = append(b.out, '}')
		}
	}
}

// null writes a missing value.
func (b *block) null() {
	if b.value {
		b.out = append(b.out, "null"...)
		b.value = false
	}
}

// top returns the innermost open frame.
func (b *block) top() *frame {
	if len(b.open) == 0 {
		return nil
	}
	return &b.open[len(b.open)-1]
}

// dash begins an element of a sequence at column.
func (b *block) dash(column int) bool {
	top := b.top()
	switch {
	case top != nil && top.seq && top.column == column:
		b.null()
	case b.value && (top == nil || top.column < column || !top.seq && top.column == column):
		b.push(column, true)
	default:
		return false
	}
	b.next()
	b.value = true
	return true
}

// pair reads "key: value" in a mapping at column.
func (b *block) pair(column int, rest []byte) bool {
	key, value := cut(rest)
	if key == nil {
		return false
	}
	if top := b.top(); top != nil && top.seq && top.column == column {
		// A sequence at its key's column ends where the next key begins.
		b.null()
		b.out = append(b.out, ']')
		b.open = b.open[:len(b.open)-1]
	}
	top := b.top()
	switch {
	case top != nil && !top.seq && top.column == column:
		b.null()
	case b.value && (top == nil || top.column < column):
		b.push(column, false)
	default:
		return false
	}
	b.next()
	if !b.key(key) {
		return false
	}
	b.out = append(b.out, ':')
	b.value = true
	if len(value) == 0 {
		return true
	}
	return b.scalar(value)
}

func (b *block) push(column int, seq bool) {
	b.open = append(b.open, frame{column: column, seq: seq, empty: true})
	b.value = false
	if seq {
		b.out = append(b.out, '[')
	} else {
		b.out = append(b.out, '{')
	}
}

// next writes the separator between elements.
func (b *block) next() {
	top := b.top()
	if !top.empty {
		b.out = append(b.out, ',')
	}
	top.empty = false
}

// cut splits "key: value" or "key:"; key is nil if rest is neither.
func cut(rest []byte) (key, value []byte) {
	if rest[0] == '"' {
		end := bytes.IndexByte(rest[1:], '"') + 2
		if end < 2 || end == len(rest) || rest[end] != ':' || end+1 < len(rest) && rest[end+1] != ' ' {
			return nil, nil
		}
		return rest[:end], rest[end+1+indent(rest[end+1:]):]
	}
	for i := 0; i < len(rest); i++ {
		colon := bytes.IndexByte(rest[i:], ':')
		if colon < 0 {
			return nil, nil
		}
		i += colon
		if i+1 == len(rest) {
			return rest[:i], nil
		}
		if rest[i+1] == ' ' {
			return rest[:i], rest[i+1+indent(rest[i+1:]):]
		}
	}
	return nil, nil
}

// key writes a key that is certainly text: 1.10 and yes are not.
func (b *block) key(key []byte) bool {
	if len(key) > maxKey || len(key) == 0 || key[len(key)-1] == ' ' {
		return false
	}
	if key[0] == '"' {
		b.out = append(b.out, key...)
		return bytes.IndexByte(key, '\\') < 0
	}
	if !(word(key) || string(key) == ".") || !solid(key) {
		return false
	}
	b.text2json(key)
	return true
}

// word reports whether a plain scalar is certainly text: no other type begins like it,
// and it is not the name of a constant.
func word(s []byte) bool {
	switch c := s[0]; {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return len(s) > len("false") || !constant(s)
	default:
		return c == '/' || c == '_'
	}
}

// constant reports whether s is a YAML 1.1 name of true, false or null, in any case.
func constant(s []byte) bool {
	switch strings.ToLower(string(s)) {
	case "y", "yes", "true", "on", "n", "no", "false", "off", "null":
		return true
	}
	return false
}

// solid reports whether a plain scalar contains no characters that would end it or change
// its type.
func solid(s []byte) bool {
	return !bytes.Contains(s, []byte(": ")) && !bytes.Contains(s, []byte(" #")) && s[len(s)-1] != ':'
}

// scalar writes a value that begins on this line.
func (b *block) scalar(s []byte) bool {
	b.value = false
	switch s[0] {
	case '"':
		return b.doubled(s)
	case '\'':
		return b.single(s)
	case '|':
		return b.literal(s)
	case '{', '[':
		b.out = append(b.out, s...)
		return string(s) == "{}" || string(s) == "[]"
	}
	if !solid(s) {
		return false
	}
	if word(s) {
		b.text2json(s)
		return true
	}
	return resolvable(s) && b.resolved(s)
}

// resolvable reports whether the value of a plain scalar is independent of its context,
// so that resolved may convert it alone.
func resolvable(s []byte) bool {
	if s[0] == '-' {
		return len(s) > 1 && s[1] != ' '
	}
	return s[0] >= '0' && s[0] <= '9' || bytes.IndexByte([]byte("+.~$("), s[0]) >= 0 || constant(s)
}

// resolved writes a plain scalar that may be a number, a boolean or null, as
// sigs.k8s.io/yaml converts it.
func (b *block) resolved(s []byte) bool {
	if known, ok := b.plain[string(s)]; ok {
		b.out = append(b.out, known...)
		return true
	}
	element, err := yaml.YAMLToJSON(append([]byte("- "), s...))
	if err != nil || len(element) < 2 || element[0] != '[' {
		return false
	}
	known := strings.TrimSuffix(strings.TrimSpace(string(element[1:])), "]")
	if b.plain == nil || len(b.plain) >= maxPlain {
		b.plain = map[string]string{}
	}
	b.plain[string(s)] = known
	b.out = append(b.out, known...)
	return true
}

// doubled writes a double-quoted scalar. Only escapes that JSON has too are allowed.
func (b *block) doubled(s []byte) bool {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			b.out = append(b.out, s...)
			return i == len(s)-1
		case '\\':
			i++
			if i == len(s) || bytes.IndexByte([]byte(`"\nt`), s[i]) < 0 {
				return false
			}
		}
	}
	return false
}

// single writes a single-quoted scalar.
func (b *block) single(s []byte) bool {
	inside := s[1:]
	end := bytes.IndexByte(inside, '\'')
	if end < 0 || end != len(inside)-1 {
		return false // It is not closed on this line, or contains quotes.
	}
	b.text2json(inside[:end])
	return true
}

// literal writes the following lines of a literal ("|"), up to a line that is not
// indented deeper than the mapping or sequence.
func (b *block) literal(s []byte) bool {
	if string(s) != "|" && string(s) != "|-" && string(s) != "|+" {
		return false
	}
	var text []byte
	column, outer := -1, b.top().column
	for b.at < len(b.text) {
		start := b.at
		line := b.line()
		in := indent(line)
		if in == len(line) && (column < 0 || in <= column) {
			if column < 0 {
				return false // A blank first line does not show the indentation.
			}
			text = append(text, '\n')
			continue
		}
		if column < 0 {
			column = in
		}
		if in < column || in <= outer {
			if in > outer {
				return false
			}
			b.at = start
			break
		}
		text = append(append(text, line[column:]...), '\n')
	}
	if b.text[b.at-1] != '\n' {
		// A literal at the end of a file without a newline is a special case.
		return false
	}
	return b.chomped(text, s[len(s)-1])
}

// chomped writes the text of a literal with the trailing newlines that its style keeps.
func (b *block) chomped(text []byte, style byte) bool {
	bare := bytes.TrimRight(text, "\n")
	if len(bare) == 0 || len(text) == len(bare) {
		return false
	}
	switch style {
	case '-':
		text = bare
	case '|':
		text = text[:len(bare)+1]
	}
	b.text2json(text)
	return true
}

// text2json writes printable text as a JSON string.
func (b *block) text2json(s []byte) {
	b.out = append(b.out, '"')
	for len(s) > 0 {
		n := bytes.IndexAny(s, "\"\\\n")
		if n < 0 {
			b.out = append(b.out, s...)
			break
		}
		b.out = append(b.out, s[:n]...)
		if s[n] == '\n' {
			b.out = append(b.out, `\n`...)
		} else {
			b.out = append(b.out, '\\', s[n])
		}
		s = s[n+1:]
	}
	b.out = append(b.out, '"')
}
