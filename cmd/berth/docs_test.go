package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/serve/trace"
)

var write = flag.Bool("write", false, "write what commands print into the pages that show it")

// block is code in a page.
type block struct {
	page     string
	line     int // of its first line of code, from 1
	language string
	lines    []string
	// indented blocks have no fence.
	indented bool
	// transcript blocks are written, and compared, by a test that needs a cluster.
	transcript bool
}

func (b *block) String() string { return fmt.Sprintf("%s:%d", b.page, b.line) }

// blocksOf returns the code of all pages of the repository.
func blocksOf(t *testing.T) []*block {
	t.Helper()
	const top = "../.."
	var all []*block
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"testdata", ".git", ".cache", "bin"}, entry.Name()):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".md"):
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		all = append(all, blocksIn(strings.TrimPrefix(filepath.ToSlash(name), top+"/"), string(text))...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func blocksIn(page, text string) []*block {
	var all []*block
	var open *block
	transcript := false
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "<!-- The transcript of "):
			transcript = true
		case line == "<!-- It ends here. -->":
			transcript = false
		}
		language, fence := strings.CutPrefix(line, "```")
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case fence && open != nil && !open.indented:
			open = nil
		case fence:
			open = &block{page: page, line: i + 2, language: language, transcript: transcript}
			all = append(all, open)
		case open != nil && !open.indented:
			open.lines = append(open.lines, line)
		case !indented:
			open = nil
		case open == nil:
			open = &block{page: page, line: i + 1, indented: true, lines: []string{code}}
			all = append(all, open)
		default:
			open.lines = append(open.lines, code)
		}
	}
	return all
}

// commands returns the command lines of a block, each split into its simple commands at
// pipes and &&. A line that ends with | or \ continues on the next.
func (b *block) commands() [][]string {
	if !slices.Contains([]string{"", "sh", "console"}, b.language) {
		return nil
	}
	var all [][]string
	text := ""
	for _, line := range b.lines {
		if text == "" && strings.HasPrefix(line, " ") {
			continue // a table, or a listing
		}
		text += strings.TrimPrefix(line, "$ ")
		if strings.HasSuffix(text, "|") || strings.HasSuffix(text, "\\") {
			text = strings.TrimSuffix(text, "\\") + " "
			continue
		}
		all = append(all, words(text)...)
		text = ""
	}
	return all
}

// words splits a command line as a shell does, without expansions: quotes, comments, and
// redirections.
func words(line string) (all [][]string) {
	var now []string
	var word strings.Builder
	quote, begun := rune(0), false
	end := func() {
		if begun {
			now = append(now, word.String())
		}
		word.Reset()
		begun = false
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t':
			end()
		case r == '#' && !begun:
			return append(all, withoutFiles(now))
		case r == '|' || r == '&' || r == ';':
			end()
			all = append(all, withoutFiles(now))
			now = nil
		default:
			begun = true
			word.WriteRune(r)
		}
	}
	end()
	return append(all, withoutFiles(now))
}

// withoutFiles returns a command without its redirections.
func withoutFiles(command []string) []string {
	if to := slices.IndexFunc(command, func(word string) bool { return word == ">" || word == "<" }); to >= 0 {
		return command[:to]
	}
	return command
}

// asBerth returns the arguments of a berth command, after the command's name.
func asBerth(command []string) (args []string, ok bool) {
	for len(command) > 0 && strings.Contains(command[0], "=") { // the environment
		command = command[1:]
	}
	switch {
	case len(command) > 0 && slices.Contains([]string{"berth", "bin/berth", "kubectl-berth"}, command[0]):
		return append([]string{filepath.Base(command[0])}, command[1:]...), true
	case len(command) > 1 && command[0] == "kubectl" && command[1] == "berth":
		return append([]string{kubectlPlugin}, command[2:]...), true
	}
	return nil, false
}

// TestCommandsInDocs parses each berth command in a block of code with the flags of the
// real command, and checks its arguments.
func TestCommandsInDocs(t *testing.T) {
	checked := 0
	for _, b := range blocksOf(t) {
		for _, command := range b.commands() {
			args, ok := asBerth(command)
			if !ok {
				continue
			}
			checked++
			if err := parses(args[1:]); err != nil {
				t.Errorf("%s: %s: %v", b, strings.Join(command, " "), err)
			}
		}
	}
	if checked < 20 {
		t.Errorf("%d commands were found: the test overlooks some", checked)
	}
	for _, wrong := range []string{"explian p", "drain n --ignore-daemonset", "preflight p", "shadow --settle soon"} {
		if parses(strings.Fields(wrong)) == nil {
			t.Errorf("%q passes", wrong)
		}
	}
}

// parses checks a command line. Brackets and ellipses are placeholders.
func parses(args []string) error {
	args = slices.DeleteFunc(slices.Clone(args), func(word string) bool { return word == "..." })
	for i := range args {
		args[i] = strings.Trim(args[i], "[]")
	}
	cmd, rest, err := newCommand().Find(args)
	if err != nil {
		return err
	}
	if !cmd.Runnable() || !cmd.HasParent() {
		return fmt.Errorf("there is no subcommand in %q", args)
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestShownOutput runs each command of a page's block that begins with "$ ", and compares
// the output with the page, except spaces at the ends of lines. Tests with a cluster
// compare their transcripts themselves. With -write it writes the output into the page.
func TestShownOutput(t *testing.T) {
	blocks := blocksOf(t)
	t.Chdir("../..")
	shown := 0
	for _, b := range blocks {
		if len(b.lines) == 0 || !strings.HasPrefix(b.lines[0], "$ ") || b.transcript {
			continue
		}
		shown++
		printed, err := outputOf(t, strings.TrimPrefix(b.lines[0], "$ "))
		if err != nil {
			t.Errorf("%s: %s: %v", b, b.lines[0], err)
			continue
		}
		got := strings.TrimRight(trimmed(printed), "\n")
		want := strings.TrimRight(trimmed(strings.Join(b.lines[1:], "\n")), "\n")
		switch {
		case got == want:
		case *write:
			rewrite(t, b, got)
		default:
			t.Errorf("%s: %s: prints\n%s\nand the page shows\n%s\n(go test ./cmd/berth -run %s -write writes it there)", b, b.lines[0], got, want, t.Name())
		}
	}
	if shown < 5 {
		t.Errorf("%d commands are shown with what they print: the test overlooks some", shown)
	}
}

// outputOf runs a command line in the top folder: one command of berth, or make try.
func outputOf(t *testing.T, line string) (string, error) {
	t.Helper()
	if line == "make try" {
		return try(t)
	}
	command := words(line)
	args, ok := asBerth(command[0])
	if !ok || len(command) > 1 {
		return "", errors.New("is not a command of berth, so that no test can run it: leave the $ out")
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), args, &out, &errs); code == 1 || code == 2 {
		return "", fmt.Errorf("exit code %d, %s", code, errs.String())
	}
	return out.String(), nil
}

// rewrite replaces the output of one command in a page.
func rewrite(t *testing.T, b *block, output string) {
	t.Helper()
	text, err := os.ReadFile(b.page)
	if err != nil {
		t.Fatal(err)
	}
	old := "```" + b.language + "\n" + strings.Join(b.lines, "\n") + "\n```"
	if strings.Count(string(text), old) != 1 {
		t.Fatalf("%s: is not in the page once", b)
	}
	if err := os.WriteFile(b.page, []byte(strings.Replace(string(text), old, "```"+b.language+"\n"+b.lines[0]+"\n"+output+"\n```", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestYAMLInDocs decodes each document of a YAML block, and of the manifests of rights,
// as its type, without unknown fields. The types are a configuration, an API object, or,
// by the comment with the file's name, values of the chart or a kustomization.
func TestYAMLInDocs(t *testing.T) {
	checked := 0
	for _, b := range blocksOf(t) {
		if b.language != "yaml" {
			continue
		}
		for document := range strings.SplitSeq(strings.Join(b.lines, "\n")+"\n", "---\n") {
			checked++
			if err := decodes(t, document); err != nil {
				t.Errorf("%s: %v\n%s", b, err, document)
			}
		}
	}
	for _, file := range []string{"deploy/shadow-rbac.yaml", "deploy/second-scheduler-rbac.yaml"} {
		rights, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(rights), "---\n") {
			checked++
			if err := decodes(t, document); err != nil {
				t.Errorf("%s: %v\n%s", file, err, document)
			}
		}
	}
	if checked < 8 {
		t.Errorf("%d documents were found: the test overlooks some", checked)
	}
	for _, wrong := range []string{
		"apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {ports: [], selecter: {a: b}}\n",
		"apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofile: []\n",
		"# values.yaml\nreplica: 2\n", "a: b\n", "apiVersion: v1\nkind: Nonsense\n",
	} {
		if decodes(t, wrong) == nil {
			t.Errorf("passes:\n%s", wrong)
		}
	}
}

func decodes(t *testing.T, document string) error {
	t.Helper()
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(document), &head); err != nil {
		return err
	}
	file := filepath.Join(t.TempDir(), "document.yaml")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		return err
	}
	switch {
	case head.Kind == "KubeSchedulerConfiguration":
		_, err := config.Read(config.Request{File: file})
		return err
	case head.Kind == "TracingConfiguration":
		_, err := trace.Load(file)
		return err
	case head.Kind != "":
		strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
		_, _, err := strict.Decode([]byte(document), nil, nil)
		return err
	case strings.HasPrefix(document, "# values.yaml\n"):
		return areValues(t, document)
	case strings.HasPrefix(document, "# kustomization.yaml\n"):
		return isKustomization(document)
	}
	return fmt.Errorf("has no kind, and its first line does not name a file: write # values.yaml or # kustomization.yaml")
}

// areValues checks that the chart has the values; config is the scheduler's.
func areValues(t *testing.T, document string) error {
	t.Helper()
	known, err := os.ReadFile("../../deploy/helm/berth/values.yaml")
	if err != nil {
		return err
	}
	var all, some map[string]any
	if err := yaml.Unmarshal(known, &all); err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict([]byte(document), &some); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(some)) {
		if _, ok := all[name]; !ok {
			return fmt.Errorf("%s: the chart has no such value", name)
		}
	}
	if some["config"] == nil {
		return nil
	}
	scheduler, err := yaml.Marshal(some["config"])
	if err != nil {
		return err
	}
	return decodes(t, "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+string(scheduler))
}

// isKustomization checks the fields of a kustomization that pages use.
func isKustomization(document string) error {
	type image struct{ Name, NewName, NewTag string }
	type generator struct {
		Name, Namespace, Behavior string
		Files                     []string
	}
	var k struct {
		Resources, Components []string
		Images                []image
		ConfigMapGenerator    []generator
	}
	return yaml.UnmarshalStrict([]byte(document), &k)
}

// TestPrintingFlagsInDocs compares the commands that the table of printing flags names
// with the commands that have these flags.
func TestPrintingFlagsInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/kubectl.md")
	if err != nil {
		t.Fatal(err)
	}
	printing := []string{"simulate", "explain", "fit", "drain", "queue", "top nodes", "top pools", "top zones", "compare", "preflight"}
	for flag, row := range map[string]string{
		"no-headers":     "| `--no-headers` | only the rows |",
		"selector":       "| `-l` | only these pods; for `top` and `drain`, nodes; not for `fit` and `preflight` |",
		"field-selector": "| `--field-selector` | only these pods; for `simulate`, `explain` and `compare` |",
		"sort-by":        "| `--sort-by` | the order of the rows; for `simulate`, `fit`, `queue`, `top` and `compare` |",
	} {
		if !strings.Contains(string(page), row+"\n") {
			t.Errorf("docs/kubectl.md lacks %s", row)
		}
		_, named, except := strings.Cut(row, "not for ")
		if !except {
			_, named, _ = strings.Cut(row, "; for ")
		}
		for _, name := range printing {
			cmd, _, err := newCommand().Find(strings.Fields(name))
			if err != nil {
				t.Fatal(err)
			}
			command, _, _ := strings.Cut(name, " ")
			want := strings.Contains(named, "`"+command+"`") != except || named == ""
			if has := cmd.Flags().Lookup(flag) != nil; has != want {
				t.Errorf("%s has --%s: %t, docs/kubectl.md: %t", name, flag, has, want)
			}
			if values := cmd.Flag("output").Usage; strings.Contains(values, " name,") == (command == "fit" || command == "preflight") {
				t.Errorf("%s: %s", name, values)
			}
		}
	}
}
