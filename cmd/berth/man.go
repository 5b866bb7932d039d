package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIRECTORY",
		Short: "Write man pages of all commands into a directory",
		Example: `  # Read a page
  berth man /tmp/berth-man && man /tmp/berth-man/berth-explain.1`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return wrong{fmt.Errorf("man takes the directory for the pages, got %q", args)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("create the directory for man pages: %w", err)
			}
			return writeMan(cmd.Root(), args[0])
		},
	}
}

// writeMan writes the page of a command and of its subcommands.
func writeMan(cmd *cobra.Command, folder string) error {
	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	if cmd == cmd.Root() {
		name = cmd.Name()
	}
	errs := []error{writeFile(filepath.Join(folder, name+".1"), func(w io.Writer) error {
		_, err := io.WriteString(w, manPage(cmd, name))
		return err
	})}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			errs = append(errs, writeMan(sub, folder))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("write man pages: %w", err)
	}
	return nil
}

// manPage returns a page in the man macros of roff.
func manPage(cmd *cobra.Command, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"Berth\" \"Berth\"\n", strings.ToUpper(name))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %s\n", roff(name), roff(cmd.Short), roff(cmd.UseLine()))
	section := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, ".SH %s\n.nf\n%s\n.fi\n", title, roff(text))
		}
	}
	section("DESCRIPTION", asCalled(cmd, strings.TrimPrefix(cmd.Long, cmd.Short+".\n\n")))
	section("EXAMPLES", asCalled(cmd, cmd.Example))
	if cmd.Flags().HasAvailableFlags() {
		b.WriteString(".SH OPTIONS\n")
	}
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		names := "--" + flag.Name
		if flag.Shorthand != "" {
			names = "-" + flag.Shorthand + ", " + names
		}
		value, usage := pflag.UnquoteUsage(flag)
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(names+" "+value)), roff(usage))
	})
	if cmd.HasAvailableSubCommands() {
		b.WriteString(".SH COMMANDS\n")
	}
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(sub.Name()), roff(sub.Short))
		}
	}
	return b.String()
}

// roff escapes a text: backslashes, dashes, and dots and quotes at the start of a line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
