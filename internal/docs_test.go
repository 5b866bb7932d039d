package internal_test

import (
	"bufio"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPagesNamedInCommentsExist checks that each page of docs/ that a Go file names exists, and that it has the section that is named with it.
func TestPagesNamedInCommentsExist(t *testing.T) {
	named := regexp.MustCompile(`\bdocs/[a-z/]+\.md(#[a-z-]+)?`)
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

// sections returns the anchors of the headings of a page, and "" for the page itself; nothing if there is no such page.
func sections(page string) []string {
	file, err := os.Open(path.Join("..", page))
	if err != nil {
		return nil
	}
	defer file.Close()
	all := []string{""}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if heading, found := strings.CutPrefix(strings.TrimLeft(lines.Text(), "#"), " "); found && strings.HasPrefix(lines.Text(), "#") {
			all = append(all, strings.NewReplacer(" ", "-", ":", "").Replace(strings.ToLower(heading)))
		}
	}
	return all
}
