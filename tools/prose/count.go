package main

import (
	"fmt"
	"go/parser"
	"go/scanner"
	"go/token"
	"iter"
	"maps"
	"math"
	"os"
	"path"
	"regexp"
	"strings"
)

// The goal for each package and page: at most markersMax markers per 1,000 words, and no
// sentence or line above these limits. Code may be as wide as codeWidth, so a comment
// behind code may be, too.
const (
	markersMax   = 5
	sentenceMax  = 40 // words
	commentWidth = 90 // columns; a tab counts as 4
	codeWidth    = 120
	pageWidth    = 100
	examplesMax  = 3
)

// markers are the patterns of the dialect. Calibrated on codebases of the field, 5 in
// 1,000 words leave room for wrong hits, such as a list that "tells" two things apart.
var markers = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{`"what" as a noun`, regexp.MustCompile(`(?i)\bwhat (is|was|it|they|has|a|the|can|may|must|other|else|there)\b`)},
	{"code that speaks", regexp.MustCompile(`(?i)\b(told|tells?|says?|said|hears?|heard|asks?|asked|knows?|believes?|notices?)\b`)},
	{`"that of"`, regexp.MustCompile(`(?i)\b(that|those) of\b|\b(of|by|in|to|for|than) (which|whom)\b`)},
	{`"one that"`, regexp.MustCompile(`(?i)\bone (that|of|with|which)\b`)},
	{`"there is"`, regexp.MustCompile(`(?i)\bthere (is|are|was|were)\b`)},
	{"idle words", regexp.MustCompile(`(?i)\b(nobody|whoever|in vain|so many|so long|by itself|all the same|it is said|takes in|gives back|will do)\b`)},
}

var (
	word     = regexp.MustCompile(`[\pL\pN_'’]+`)
	sentence = regexp.MustCompile(`[.!?:;]["')\]]*(\s+|$)|\n\n`)
	// inline is code and links inside a sentence, which count as one word.
	inline = regexp.MustCompile("`[^`]*`" + `|\]\([^)]*\)|https?://\S+`)
)

// numbers are the counts of a package or a page.
type numbers struct{ markers, sentences, lines int }

// orGoal returns the limits, or the goal where a limit is lower.
func (n numbers) orGoal() numbers { return numbers{max(n.markers, markersMax), n.sentences, n.lines} }

// room is a package or a page.
type room struct {
	words, hits int
	long, wide  int
	// examples are places of markers, long sentences and wide lines, examplesMax each.
	examples [3][]string
}

// numbers returns the counts; markers are per 1,000 words, rounded up.
func (r *room) numbers() numbers {
	return numbers{int(math.Ceil(1000 * float64(r.hits) / float64(max(r.words, 1)))), r.long, r.wide}
}

// above returns a line for each number above its limit.
func (r *room) above(limit numbers) (problems []string) {
	n := r.numbers()
	for i, row := range []struct {
		have, limit int
		what        string
	}{
		{n.markers, limit.markers, "markers of dialect per 1,000 words"},
		{n.sentences, limit.sentences, fmt.Sprintf("sentences of more than %d words", sentenceMax)},
		{n.lines, limit.lines, "lines that are too wide"},
	} {
		if row.have > row.limit {
			problems = append(problems, fmt.Sprintf("%d %s, at most %d: %s", row.have, row.what, row.limit, strings.Join(r.examples[i], "; ")))
		}
	}
	return problems
}

func (r *room) example(kind int, format string, args ...any) {
	if len(r.examples[kind]) < examplesMax {
		r.examples[kind] = append(r.examples[kind], fmt.Sprintf(format, args...))
	}
}

// roomsOf counts the files by package, and each page on its own.
func roomsOf(files []string) (map[string]*room, error) {
	rooms := map[string]*room{}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		name := file
		if path.Ext(file) == ".go" {
			name = path.Dir(file)
		}
		if rooms[name] == nil {
			rooms[name] = &room{}
		}
		if path.Ext(file) == ".go" {
			err = rooms[name].addGo(file, source)
		} else {
			rooms[name].addPage(file, string(source))
		}
		if err != nil {
			return nil, err
		}
	}
	return rooms, nil
}

// addGo counts the comments of a Go file. Directives and generated files do not count.
func (r *room) addGo(file string, source []byte) error {
	set := token.NewFileSet()
	if tree, err := parser.ParseFile(set, file, source, parser.PackageClauseOnly|parser.ParseComments); err != nil {
		return err
	} else if len(tree.Comments) > 0 && strings.HasPrefix(tree.Comments[0].Text(), "Code generated") {
		return nil
	}
	var s scanner.Scanner
	at := set.AddFile(file, -1, len(source))
	s.Init(at, source, nil, scanner.ScanComments)
	lines := strings.Split(string(source), "\n")
	block, first, last := []string{}, 0, -1
	flush := func() {
		r.addText(file, first, strings.Join(block, "\n"))
		block = block[:0]
	}
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok != token.COMMENT || isDirective(literal) {
			continue
		}
		line := set.Position(pos).Line
		if line != last+1 {
			flush()
			first = line
		}
		last = line
		block = append(block, plain(literal))
		limit := codeWidth
		if strings.HasPrefix(strings.TrimSpace(lines[line-1]), "//") {
			limit = commentWidth
		}
		r.addLine(file, line, lines[line-1], limit)
	}
	flush()
	return nil
}

func isDirective(comment string) bool {
	return len(comment) > 2 && strings.HasPrefix(comment, "//") && comment[2] != ' ' && comment[2] != '\t' || strings.HasPrefix(comment, "// +")
}

// plain returns the text of a comment line. Indented lines are code and count as nothing.
func plain(comment string) string {
	text := strings.TrimPrefix(strings.TrimPrefix(comment, "//"), " ")
	if strings.HasPrefix(text, "\t") || strings.HasPrefix(text, "   ") {
		return ""
	}
	return strings.TrimPrefix(text, "# ")
}

// addPage counts a Markdown page without code blocks, and tables only for markers.
func (r *room) addPage(file, source string) {
	var block []string
	first, fenced := 1, false
	flush := func(next int) {
		r.addText(file, first, strings.Join(block, "\n"))
		block, first = block[:0], next
	}
	for i, line := range strings.Split(source, "\n") {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "```") {
			fenced = !fenced
			continue
		}
		switch {
		case fenced || strings.HasPrefix(line, "    ") || strings.HasPrefix(trimmed, "<!--"):
			continue
		case strings.HasPrefix(trimmed, "|"):
			for _, cell := range strings.Split(trimmed, "|") {
				r.addMarkers(file, i+1, inline.ReplaceAllString(cell, "x"))
			}
			continue
		case trimmed == "" || strings.HasPrefix(trimmed, "#") || strings.HasPrefix(trimmed, "- ") || strings.HasPrefix(trimmed, "* "):
			flush(i + 1)
		}
		block = append(block, strings.TrimLeft(trimmed, "#-*> "))
		if !strings.Contains(line, "](") && !strings.Contains(line, "http") {
			r.addLine(file, i+1, line, pageWidth)
		}
	}
	flush(0)
}

func (r *room) addText(file string, line int, text string) {
	text = inline.ReplaceAllString(text, "x")
	r.addMarkers(file, line, text)
	for _, s := range sentence.Split(text, -1) {
		if n := len(word.FindAllString(s, -1)); n > sentenceMax {
			r.long++
			r.example(1, "%s:%d: %d words from %q", file, line, n, strings.Join(strings.Fields(s)[:6], " "))
		}
	}
}

func (r *room) addMarkers(file string, line int, text string) {
	r.words += len(word.FindAllString(text, -1))
	for _, m := range markers {
		for _, found := range m.pattern.FindAllString(text, -1) {
			r.hits++
			r.example(0, "%s:%d: %s: %q", file, line, m.name, found)
		}
	}
}

func (r *room) addLine(file string, line int, text string, limit int) {
	if width := len([]rune(strings.ReplaceAll(text, "\t", "    "))); width > limit {
		r.wide++
		r.example(2, "%s:%d: %d columns, at most %d", file, line, width, limit)
	}
}

func keys(m map[string]*room) iter.Seq[string] { return maps.Keys(m) }
