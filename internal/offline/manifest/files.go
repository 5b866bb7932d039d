package manifest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is one file's bytes.
type source struct {
	name  string
	given string // the file, directory or archive as it was given
	// found means that it is in a directory or an archive, so it may contain no objects.
	found bool
	data  []byte
}

// expand replaces directories by their files, and drops duplicates.
func expand(files []string, errs *[]*Error) []source {
	var all []source
	have := map[string]bool{}
	for _, file := range files {
		names, found := []string{file}, false
		if info, err := os.Stat(file); file != "-" && err == nil && info.IsDir() {
			names, found = within(file, errs), true
		}
		for _, name := range names {
			if clean := filepath.Clean(name); !have[clean] {
				have[clean] = true
				all = append(all, source{name: name, given: file, found: found})
			}
		}
	}
	return all
}

// within returns the manifests of a directory and its subdirectories, by name. Hidden
// directories, such as .git, are left out.
func within(dir string, errs *[]*Error) []string {
	var names []string
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && name != dir && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case !entry.IsDir() && isManifest(name) && !leadsToDirectory(name, entry):
			names = append(names, name)
		}
		return nil
	})
	switch {
	case err != nil:
		*errs = append(*errs, &Error{File: dir, Problem: fmt.Sprintf("cannot be read: %s", reason(err))})
	case len(names) == 0:
		*errs = append(*errs, &Error{File: dir,
			Problem: "no *.yaml, *.yml or *.json file in the directory or its subdirectories"})
	}
	return names
}

// isManifest reports, by its name, whether a file in a directory or an archive is read.
func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// leadsToDirectory reports whether an entry is a symbolic link to a directory.
func leadsToDirectory(name string, entry fs.DirEntry) bool {
	if entry.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// open returns a file's bytes, or the manifests in it if it is an archive.
func open(s source, stdin io.Reader) ([]source, error) {
	data, err := load(s.name, stdin)
	if err != nil {
		return nil, err
	}
	s.data = data
	return unpack(s, maxUnpacked)
}

func load(name string, stdin io.Reader) ([]byte, error) {
	if name != "-" {
		return os.ReadFile(name)
	}
	if stdin == nil {
		return nil, errors.New("no standard input")
	}
	return io.ReadAll(stdin)
}

// reason removes from a file system error the parts that the caller adds anyway.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}
