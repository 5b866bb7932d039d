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

// repeatedKey matches the parser's error for a key that a mapping has twice.
var repeatedKey = regexp.MustCompile(`^invalid YAML: key (".*") already set in map$`)

// withRepeatedKeys returns the JSON of a unit in which keys are repeated, and a remark
// for each of them. The last value counts, as for kubectl: charts often render a label
// twice.
// It returns nil if the unit has another error.
func withRepeatedKeys(u unit, err error) ([]byte, []*Error) {
	errs := yamlErrors(u, err)
	for _, e := range errs {
		key := repeatedKey.FindStringSubmatch(e.Problem)
		if key == nil {
			return nil, nil
		}
		e.Problem, e.use = "key "+key[1]+" is given twice", "the last value counts"
	}
	text := u.text
	if u.dash >= 0 {
		text = u.withoutDash()
	}
	js, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, nil
	}
	return js, errs
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
