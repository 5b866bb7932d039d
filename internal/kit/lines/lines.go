// Package lines finds the lines of fields in YAML and JSON text, for error messages.
//
// It takes a text and the path of a field, and returns the line. It owns nothing, and
// never checks the text.
package lines

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Text is a parsed text. The zero value has no fields.
type Text struct{ root *yaml.Node }

// Parse parses the first document of a text. A text with errors has no fields.
func Parse(text []byte) Text {
	var document yaml.Node
	if yaml.Unmarshal(text, &document) != nil || len(document.Content) == 0 {
		return Text{}
	}
	return Text{document.Content[0]}
}

// Line returns the line of a field, from 1, by its path, such as a.b[2].c[key]. If the
// field is missing, it returns the line of the deepest field around it; 0 if none exists.
func (t Text) Line(path string) int {
	line := 0
	node := t.root
	for _, name := range split(path) {
		key, value := child(node, name)
		if value == nil {
			break
		}
		line, node = key.Line, value
	}
	return line
}

// split splits a path into the names of fields and the indexes of elements.
func split(path string) (names []string) {
	for path != "" {
		switch {
		case path[0] == '.':
			path = path[1:]
		case path[0] == '[':
			name, rest, _ := strings.Cut(path[1:], "]")
			names, path = append(names, name), rest
		default:
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			names, path = append(names, path[:end]), path[end:]
		}
	}
	return names
}

// child returns the key and the value of a field, or an element as both; nil without one.
func child(node *yaml.Node, name string) (key, value *yaml.Node) {
	for node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch {
	case node == nil:
	case node.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i], node.Content[i+1]
			}
		}
	case node.Kind == yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i]
		}
	}
	return nil, nil
}
