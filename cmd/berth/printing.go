package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// printing holds the flags that choose and format the output of a command. All commands
// share it, so that a flag has the same meaning everywhere.
type printing struct {
	prints
	output    string // without the template
	template  string // of jsonpath and custom-columns
	noHeaders bool
	selects   string
	selector  labels.Selector // of selects, after check
	selectsBy string
	fields    fields.Selector // of selectsBy, after check
	sortBy    string
}

// prints describes the output of a command. The zero value of a field means that the
// command lacks the flag.
type prints struct {
	outputs []string // the values of -o
	bare    bool     // --no-headers
	of      string   // the objects that -l selects, such as "pods"
	byField bool     // --field-selector, for pods
	sorts   []string // the values of --sort-by, the default first
	// jsonpath and columns are templates of -o that print something, as examples.
	jsonpath, columns string
}

// The values of -o for commands with rows: for rows without names, with names, and with
// wide rows.
var (
	rowOutputs  = []string{"table", "json", "yaml", "csv", ofJSONPath, ofColumns}
	nameOutputs = []string{"table", "json", "yaml", "name", "csv", ofJSONPath, ofColumns}
	wideOutputs = []string{"table", "wide", "json", "yaml", "name", "csv", ofJSONPath, ofColumns}
)

// The values of -o that have a template after "=".
const (
	ofJSONPath = "jsonpath"
	ofColumns  = "custom-columns"
)

// shownOutputs lists values of -o for people.
func shownOutputs(outputs []string) string {
	var all []string
	for _, name := range outputs {
		switch name {
		case ofJSONPath:
			name += "=TEMPLATE"
		case ofColumns:
			name += "=HEADER:PATH[,HEADER:PATH]"
		}
		all = append(all, name)
	}
	return strings.Join(all, ", ")
}

// declare declares the flags.
func (p *printing) declare(flags *pflag.FlagSet) {
	if p.outputs != nil {
		flags.StringVarP(&p.output, "output", "o", "table", "Output format: "+shownOutputs(p.outputs)+".")
	}
	if p.bare {
		flags.BoolVar(&p.noHeaders, "no-headers", false, "Print only the rows, without headers.")
	}
	if p.of != "" {
		flags.StringVarP(&p.selects, "selector", "l", "", "Only "+p.of+" with these labels, such as app=web.")
	}
	if p.byField {
		flags.StringVar(&p.selectsBy, "field-selector", "",
			"Only pods with these fields, such as spec.schedulerName=berth. Fields: "+strings.Join(podFields, ", ")+".")
	}
	if p.sorts != nil {
		flags.StringVar(&p.sortBy, "sort-by", p.sorts[0], "Order of the rows: "+p.sortKeys()+".")
	}
}

// sortKeys lists the values of --sort-by.
func (p *printing) sortKeys() string {
	return strings.Join(slices.Sorted(slices.Values(p.sorts)), ", ")
}

// complete registers shell completion.
func (p *printing) complete(cmd *cobra.Command) {
	var outputs []string
	for _, name := range p.outputs {
		if name == ofJSONPath || name == ofColumns {
			name += "="
		}
		outputs = append(outputs, name)
	}
	for flag, values := range map[string][]string{"output": outputs, "sort-by": p.sorts} {
		if values != nil { // the flag exists, so registration cannot fail
			_ = cmd.RegisterFlagCompletionFunc(flag,
				cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// check checks the flags. It is called once, before the input is read.
func (p *printing) check() (err error) {
	if p.outputs != nil {
		if err := p.checkOutput(); err != nil {
			return err
		}
	}
	if p.sorts != nil && !slices.Contains(p.sorts, p.sortBy) {
		return wrong{fmt.Errorf("--sort-by %q: must be one of %s", p.sortBy, p.sortKeys())}
	}
	if p.selector, err = labels.Parse(p.selects); err != nil {
		return wrong{fmt.Errorf("--selector %q: must be a selector of labels, such as app=web,tier!=db: %w", p.selects, err)}
	}
	if p.fields, err = fields.ParseSelector(p.selectsBy); err != nil {
		return wrong{fmt.Errorf("--field-selector %q: must be a selector of fields, such as metadata.name=web-0: %w", p.selectsBy, err)}
	}
	for _, r := range p.fields.Requirements() {
		if !slices.Contains(podFields, r.Field) {
			return wrong{fmt.Errorf("--field-selector %q: the field %q must be one of %s", p.selectsBy, r.Field, strings.Join(podFields, ", "))}
		}
	}
	return nil
}

// checkOutput checks --output, and parses its template.
func (p *printing) checkOutput() error {
	name, template, has := strings.Cut(p.output, "=")
	takes := name == ofJSONPath || name == ofColumns
	switch {
	case !slices.Contains(p.outputs, name), has && !takes:
		return wrong{fmt.Errorf("--output %q: must be one of %s", p.output, shownOutputs(p.outputs))}
	case takes && template == "":
		return wrong{fmt.Errorf("--output %q: needs a template, such as -o %s", p.output,
			map[string]string{ofJSONPath: "jsonpath='" + p.jsonpath + "'", ofColumns: "custom-columns=" + p.columns}[name])}
	}
	p.output, p.template = name, template
	var err error
	switch name {
	case ofJSONPath:
		_, err = newTemplate(template)
	case ofColumns:
		_, err = newColumns(template)
	}
	if err != nil {
		return wrong{fmt.Errorf("--output %s=%q: %w", name, template, err)}
	}
	return nil
}

// podFields are the fields of pods that --field-selector reads, as of the API server.
var podFields = slices.Sorted(maps.Keys(podFieldSet(&v1.Pod{})))

func podFieldSet(pod *v1.Pod) fields.Set {
	return fields.Set{
		"metadata.name": pod.Name, "metadata.namespace": pod.Namespace,
		"spec.nodeName": pod.Spec.NodeName, "spec.schedulerName": pod.Spec.SchedulerName,
		"status.nominatedNodeName": pod.Status.NominatedNodeName, "status.phase": string(pod.Status.Phase),
	}
}

// chooses reports whether the selectors select a pod.
func (p *printing) chooses(pod *v1.Pod) bool {
	return p.selector.Matches(labels.Set(pod.Labels)) && p.fields.Matches(podFieldSet(pod))
}

// choosesAll reports whether no selector is given.
func (p *printing) choosesAll() bool { return p.selector.Empty() && p.fields.Empty() }

// listing is an answer that consists of rows, for all values of -o except table and wide.
type listing struct {
	object any             // for json, yaml and jsonpath
	rows   []any           // for custom-columns
	table  func() *table   // for csv
	names  func() []string // for name
}

// rowsOf converts rows for a listing.
func rowsOf[T any](rows []T) []any {
	all := make([]any, len(rows))
	for i := range rows {
		all[i] = &rows[i]
	}
	return all
}

// print prints a listing. It returns false for tables, which the command prints.
func (p *printing) print(w io.Writer, l listing) (done bool, err error) {
	switch p.output {
	case "json", "yaml":
		return true, printObject(w, p.output, l.object)
	case "name":
		for _, name := range l.names() {
			if _, err = fmt.Fprintln(w, name); err != nil {
				break
			}
		}
	case "csv":
		err = l.table().printCSV(w, !p.noHeaders)
	case ofJSONPath:
		err = printTemplate(w, p.template, l.object)
	case ofColumns:
		err = p.printColumns(w, l.rows)
	default:
		return false, nil
	}
	if err != nil {
		return true, fmt.Errorf("print: %w", err)
	}
	return true, nil
}

// printColumns prints the custom columns of rows.
func (p *printing) printColumns(w io.Writer, rows []any) error {
	c, err := newColumns(p.template)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := c.add(row); err != nil {
			return err
		}
	}
	return c.table.print(w, 0, !p.noHeaders)
}

// podNames returns the names of n pods for -o name.
func podNames(n int, name func(i int) string) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "pod/" + name(i)
	}
	return names
}
