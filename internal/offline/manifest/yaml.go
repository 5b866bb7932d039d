package manifest

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// yamlReader converts YAML to JSON. It has buffers and a cache of scalars, so only one
// goroutine may use it.
type yamlReader struct {
	block block
}

// json returns u's text as JSON, valid until the next call.
func (y *yamlReader) json(u unit) ([]byte, error) {
	if js, ok := y.block.json(u.text, u.dash); ok {
		return js, nil
	}
	text := u.text
	if u.dash >= 0 {
		text = u.withoutDash()
	}
	return yaml.YAMLToJSONStrict(text)
}

// withoutDash returns the text of an element of a list as a document of its own.
func (u unit) withoutDash() []byte {
	text := bytes.Clone(u.text)
	text[u.dash] = ' '
	return text
}

var yamlLine = regexp.MustCompile(`line (\d+): `)

// yamlErrors converts the YAML parser's error about u to errors with lines of the file.
func yamlErrors(u unit, err error) []*Error {
	var errs []*Error
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	text = strings.TrimPrefix(text, "unmarshal errors:\n")
	for line := range strings.Lines(text) {
		e := &Error{File: u.file, Line: u.line, Object: u.place}
		problem := strings.TrimSpace(line)
		if at := yamlLine.FindStringSubmatch(problem); at != nil {
			n, _ := strconv.Atoi(at[1])
			e.Line += n - 1
			problem = strings.Replace(problem, at[0], "", 1)
		}
		e.Problem = fmt.Sprintf("invalid YAML: %s", problem)
		errs = append(errs, e)
	}
	return errs
}
