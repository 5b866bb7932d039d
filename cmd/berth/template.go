package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/util/jsonpath"
)

// newTemplate parses a template of kubectl's language.
func newTemplate(text string) (*jsonpath.JSONPath, error) {
	t := jsonpath.New("output").AllowMissingKeys(true)
	if err := t.Parse(text); err != nil {
		return nil, fmt.Errorf("must be a template, such as {.pods[*].node}: %w", err)
	}
	return t, nil
}

// printTemplate applies a template to the JSON form of an object.
func printTemplate(w io.Writer, text string, object any) error {
	t, err := newTemplate(text)
	if err != nil {
		return err
	}
	data, err := decoded(object)
	if err != nil {
		return err
	}
	return t.Execute(w, data)
}

// decoded returns an object as its JSON decodes, because templates name fields of JSON.
func decoded(object any) (any, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var data any
	return data, utiljson.Unmarshal(text, &data)
}

// customColumns are the columns that the user chose, and the table of their values.
type customColumns struct {
	table table
	paths []*jsonpath.JSONPath
}

// newColumns parses HEADER:PATH,HEADER:PATH. A path may lack its braces and first dot, as
// for kubectl.
func newColumns(spec string) (*customColumns, error) {
	c := &customColumns{}
	for _, part := range strings.Split(spec, ",") {
		header, path, ok := strings.Cut(part, ":")
		path = strings.TrimSuffix(strings.TrimPrefix(path, "{"), "}")
		if !ok || header == "" || path == "" {
			return nil, fmt.Errorf("the column %q must be HEADER:PATH, such as POD:.pod", part)
		}
		if !strings.HasPrefix(path, ".") && !strings.HasPrefix(path, "[") {
			path = "." + path
		}
		t, err := newTemplate("{" + path + "}")
		if err != nil {
			return nil, fmt.Errorf("the column %q: %w", part, err)
		}
		c.paths = append(c.paths, t)
		c.table.columns = append(c.table.columns, column{name: header})
	}
	return c, nil
}

// add adds the row of an object.
func (c *customColumns) add(object any) error {
	data, err := decoded(object)
	if err != nil {
		return err
	}
	var row []string
	for _, path := range c.paths {
		found, err := path.FindResults(data)
		if err != nil {
			return err
		}
		var texts []string
		for _, group := range found {
			for _, value := range group {
				texts = append(texts, textOf(value))
			}
		}
		row = append(row, orNone(strings.Join(texts, ",")))
	}
	c.table.rows = append(c.table.rows, row)
	return nil
}

// textOf formats a value: objects and lists as JSON, because these have no other form.
func textOf(value reflect.Value) string {
	if !value.IsValid() || !value.CanInterface() {
		return ""
	}
	switch v := value.Interface().(type) {
	case nil:
		return ""
	case map[string]any, []any:
		text, err := json.Marshal(v)
		if err != nil {
			return fmt.Sprint(v)
		}
		return string(text)
	default:
		return fmt.Sprint(v)
	}
}

// printCSV prints the table as comma-separated values.
func (t *table) printCSV(to io.Writer, headers bool) error {
	w := csv.NewWriter(to)
	if headers {
		names := make([]string, len(t.columns))
		for i := range t.columns {
			names[i] = t.columns[i].name
		}
		_ = w.Write(names) // Error returns the error
	}
	for _, row := range t.rows {
		cells := make([]string, len(row))
		for i := range row {
			cells[i] = printable(row[i])
		}
		_ = w.Write(cells)
	}
	w.Flush()
	return w.Error()
}
