package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/printers"
)

// table is a table for people.
type table struct {
	columns []column
	rows    [][]string
}

// column is a column of a table.
type column struct {
	name string
	// number aligns the column to the right.
	number bool
	// text wraps the column, which must be the last. titled means that the text needs the
	// column's name also below its row.
	text, titled bool
}

// The layout of a table. The space between columns and their least width are those of
// kubectl. A text beside other columns has at least textMin characters. A text below its
// row is indented. Names are not cut to less than nameMin.
const (
	columnGap  = 3
	columnMin  = 3
	textMin    = 28
	textIndent = 4
	nameMin    = 12
)

// newTable returns a table with these columns. A name that ends with ">" is a column of
// numbers, and "~" marks the last column if it has text to wrap, ":~" if it is titled.
func newTable(names ...string) *table {
	t := &table{}
	for _, name := range names {
		c := column{name: strings.TrimRight(name, ">~:"), number: strings.HasSuffix(name, ">")}
		c.text, c.titled = strings.HasSuffix(name, "~"), strings.HasSuffix(name, ":~")
		t.columns = append(t.columns, c)
	}
	return t
}

// add adds a row.
func (t *table) add(cells ...any) {
	row := make([]string, len(cells))
	for i := range cells {
		row[i] = fmt.Sprint(cells[i])
	}
	t.rows = append(t.rows, row)
}

// blocks prints tables and lines of text with an empty line between them. It keeps the
// first error.
type blocks struct {
	w       io.Writer
	width   int
	headers bool
	begun   bool
	err     error
}

// blocks returns the printer of a command's output.
func (p *printing) blocks(w io.Writer) *blocks {
	return &blocks{w: w, width: widthOf(w), headers: !p.noHeaders}
}

// next begins a block.
func (b *blocks) next() {
	if b.begun && b.err == nil {
		_, b.err = io.WriteString(b.w, "\n")
	}
	b.begun = true
}

// table prints a table. A table without rows is left out.
func (b *blocks) table(t *table) {
	if len(t.rows) == 0 {
		return
	}
	if b.next(); b.err == nil {
		b.err = t.print(b.w, b.width, b.headers)
	}
}

// line prints a line of text, which is wrapped to the width.
func (b *blocks) line(format string, args ...any) {
	b.next()
	text := fmt.Sprintf(format, args...)
	if b.width > 0 {
		text = strings.Join(wrapped(text, b.width), "\n")
	}
	if b.err == nil {
		_, b.err = io.WriteString(b.w, text+"\n")
	}
}

// end returns the first error.
func (b *blocks) end() error {
	if b.err != nil {
		return fmt.Errorf("print: %w", b.err)
	}
	return nil
}

// print prints a table that is at most width characters wide; 0 means any width. A text
// that has no room beside the other columns is printed below its row.
func (t *table) print(w io.Writer, width int, headers bool) error {
	widths := t.widths(headers)
	last := len(t.columns) - 1
	room := 0 // of a text beside the other columns
	wraps := t.columns[last].text && width > 0
	if wraps {
		room = width
		for _, wide := range widths[:last] {
			room -= wide + columnGap
		}
	}
	out := printers.GetNewTabWriter(w)
	below := wraps && room < min(textMin, widths[last])
	if below {
		widths = widths[:last]
		t.shrink(widths, width)
	}
	if headers {
		names := make([]string, len(t.columns))
		for i := range t.columns {
			names[i] = t.columns[i].name
		}
		t.line(out, names, widths)
	}
	for _, row := range t.rows {
		if !wraps {
			t.line(out, row, widths)
			continue
		}
		if below {
			t.line(out, row, widths)
			for _, part := range wrapped(t.below(row[last]), max(textMin, width-textIndent)) {
				_, _ = io.WriteString(out, strings.Repeat(" ", textIndent)+part+"\n")
			}
			continue
		}
		cells := append([]string(nil), row...)
		parts := wrapped(row[last], room)
		cells[last] = strings.Join(parts[:min(1, len(parts))], "")
		t.line(out, cells, widths)
		for _, part := range parts[min(1, len(parts)):] {
			t.line(out, append(make([]string, last), part), widths)
		}
	}
	return out.Flush()
}

// below returns the text below a row, which has no heading there.
func (t *table) below(text string) string {
	last := &t.columns[len(t.columns)-1]
	switch {
	case text == "-":
		return ""
	case last.titled && text != "":
		return strings.ToLower(last.name) + ": " + text
	}
	return text
}

// shrink makes the widest column of names so narrow that all columns fit, as far as names
// stay readable.
func (t *table) shrink(widths []int, width int) {
	widest, all := -1, -columnGap
	for i, wide := range widths {
		all += wide + columnGap
		if !t.columns[i].number && (widest < 0 || wide > widths[widest]) {
			widest = i
		}
	}
	if widest >= 0 && all > width {
		widths[widest] = min(widths[widest], max(nameMin, widths[widest]-(all-width)))
	}
}

// dropFirst removes the first column.
func (t *table) dropFirst() {
	t.columns = t.columns[1:]
	for i := range t.rows {
		t.rows[i] = t.rows[i][1:]
	}
}

// widths returns the width of each column.
func (t *table) widths(headers bool) []int {
	widths := make([]int, len(t.columns))
	for i := range t.columns {
		if i < len(t.columns)-1 {
			widths[i] = columnMin
		}
		if headers {
			widths[i] = max(widths[i], utf8.RuneCountInString(t.columns[i].name))
		}
		for _, row := range t.rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	return widths
}

// line prints the cells that have a width. All cells but the last have the full width, so
// that text between two lines does not change the columns.
func (t *table) line(w io.Writer, cells []string, widths []int) {
	for len(widths) > 1 && cells[len(widths)-1] == "" {
		widths = widths[:len(widths)-1]
	}
	for i, wide := range widths {
		cell := printable(cells[i])
		if runes := []rune(cell); len(runes) > wide && i < len(t.columns)-1 {
			cell = string(runes[:wide-1]) + "…"
		}
		pad := strings.Repeat(" ", max(0, wide-utf8.RuneCountInString(cell)))
		switch {
		case t.columns[i].number:
			cell = pad + cell
		case i < len(widths)-1:
			cell += pad
		}
		if i > 0 {
			cell = "\t" + cell
		}
		_, _ = io.WriteString(w, cell) // Flush returns the error
	}
	_, _ = io.WriteString(w, "\n")
}

// printable replaces characters that a terminal would act on. Names of owners may have
// any.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\uFFFD'
	}, text)
}

// wrapped splits a text into lines of at most width characters: at spaces, and inside of
// longer words.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		word = printable(word)
		for runes := []rune(word); len(runes) > width; runes = []rune(word) {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			lines, word = append(lines, string(runes[:width])), string(runes[width:])
		}
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// widthOf returns the width of the terminal, or of the variable COLUMNS; 0 for any width.
func widthOf(w io.Writer) int {
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		return columns
	}
	if file, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil {
			return width
		}
	}
	return 0
}
