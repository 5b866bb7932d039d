package internal_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// TestPagesNamedInCommentsExist checks that each page of docs/ and design/ in a Go file
// exists, and so does the section, if one is given.
func TestPagesNamedInCommentsExist(t *testing.T) {
	named := regexp.MustCompile(`\b(?:docs|design)/[A-Za-z/]+\.md(#[a-z-]+)?`)
	checked := 0
	walkGo(t, "..", func(name string, source []byte) {
		for _, link := range named.FindAllString(string(source), -1) {
			checked++
			page, section, _ := strings.Cut(link, "#")
			if !slices.Contains(sections(page), section) {
				t.Errorf("%s names %s, which does not exist", name, link)
			}
		}
	})
	if checked == 0 {
		t.Error("no page is named anywhere: the test finds none")
	}
}

// walkGo reads the Go files below a folder.
func walkGo(t *testing.T, folder string, visit func(name string, source []byte)) {
	t.Helper()
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{"testdata", ".git", ".cache", "bin"}, entry.Name()) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		source, err := os.ReadFile(name)
		if err == nil {
			visit(name, source)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sections returns the anchors of the headings of a page, as GitHub makes them, and ""
// for the page itself. It returns nil if the page does not exist.
func sections(page string) []string {
	text, err := os.ReadFile(path.Join("..", page))
	if err != nil {
		return nil
	}
	all := []string{""}
	seen := map[string]int{}
	for line := range strings.SplitSeq(prose(string(text)), "\n") {
		heading, found := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !found || !strings.HasPrefix(line, "#") {
			continue
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, linked.ReplaceAllString(heading, "$1"))
		if n := seen[anchor]; n > 0 {
			all = append(all, fmt.Sprintf("%s-%d", anchor, n))
		} else {
			all = append(all, anchor)
		}
		seen[anchor]++
	}
	return all
}

// linked matches a link in Markdown, with its text and target.
var linked = regexp.MustCompile(`\[([^\[\]]*)\]\(([^()\s]*)\)`)

// prose removes blocks of code and inline code from a page, and keeps the number of
// lines.
func prose(page string) string {
	lines := strings.Split(page, "\n")
	fenced := false
	for i, line := range lines {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			lines[i] = ""
		} else if fenced {
			lines[i] = ""
		}
	}
	return strings.Join(lines, "\n")
}

// TestLinks checks the links of all pages to files and sections of this repository.
func TestLinks(t *testing.T) {
	code := regexp.MustCompile("`[^`]*`")
	checked := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(path.Join("..", page))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(prose(string(text)), "\n") {
			// A link's text may be code. Links within code do not count.
			for _, link := range linked.FindAllStringSubmatch(code.ReplaceAllString(line, "code"), -1) {
				to, section, _ := strings.Cut(link[2], "#")
				if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
					continue
				}
				checked++
				file := path.Join(path.Dir(page), to)
				if to == "" {
					file = page
				}
				if _, err := os.Stat(path.Join("..", file)); err != nil {
					t.Errorf("%s:%d: [%s](%s): there is no file %s", page, i+1, link[1], link[2], file)
				} else if section != "" && !slices.Contains(sections(file), section) {
					t.Errorf("%s:%d: [%s](%s): %s has no section of that anchor; it has %q", page, i+1, link[1], link[2], file, sections(file)[1:])
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("%d links were found: the test overlooks some", checked)
	}
}

// TestIndexOfDocs checks that docs/README.md links to each page of docs/, and
// design/README.md to each page of design/.
func TestIndexOfDocs(t *testing.T) {
	for _, folder := range []string{"docs/", "design/"} {
		index := readTop(t, folder+"README.md")
		for _, page := range pages(t) {
			name, ok := strings.CutPrefix(page, folder)
			if ok && name != "README.md" && !strings.Contains(name, "/") && !strings.Contains(index, "("+name+")") {
				t.Errorf("%sREADME.md has no link to %s", folder, name)
			}
		}
	}
}

// TestMakeTargetsInDocs checks that each make target in a page's code exists, and each
// variable that is set.
func TestMakeTargetsInDocs(t *testing.T) {
	makefile := readTop(t, "Makefile")
	targets := makeTargets(makefile)
	named := regexp.MustCompile("(?m)(?:^\\s*(?:\\$ )?|`|&& )make ((?:[^`\n#|&;>']|'[^']*')+)")
	checked := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(path.Join("..", page))
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range named.FindAllStringSubmatch(string(text), -1) {
			for _, word := range strings.Fields(regexp.MustCompile(`'[^']*'`).ReplaceAllString(command[1], "text")) {
				variable, _, set := strings.Cut(word, "=")
				switch {
				case strings.HasPrefix(word, "-"):
				case set:
					checked++
					if !regexp.MustCompile(`\$\([a-z ]*` + variable + `\b`).MatchString(makefile) {
						t.Errorf("%s: make %s: the Makefile does not use %s", page, command[1], variable)
					}
				case !targets[word]:
					t.Errorf("%s: make %s: there is no target %q", page, command[1], word)
				default:
					checked++
				}
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d targets were found: the test overlooks some", checked)
	}
}

// makeTargets returns the targets of a Makefile.
func makeTargets(makefile string) map[string]bool {
	targets := map[string]bool{}
	rules := regexp.MustCompile(`(?m)^([a-z0-9 /$()_-]*[a-z0-9)]):( |$)`)
	for _, rule := range rules.FindAllStringSubmatch(strings.ReplaceAll(makefile, "$(BIN)", "bin"), -1) {
		for _, target := range strings.Fields(rule[1]) {
			targets[target] = true
		}
	}
	return targets
}

// pages returns the paths of the repository's Markdown files.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"testdata", ".git", ".cache", "bin", "node_modules"}, entry.Name()):
			return fs.SkipDir
		case strings.HasSuffix(name, ".md"):
			all = append(all, strings.TrimPrefix(filepath.ToSlash(name), "../"))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
