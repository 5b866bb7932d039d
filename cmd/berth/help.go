package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The groups of commands in the help of berth.
const (
	groupAsk   = "ask"
	groupAdopt = "adopt"
	groupRun   = "run"
)

// groupOfVerb is the group of each command. cobra's own commands have none.
var groupOfVerb = map[string]string{
	"explain": groupAsk, "simulate": groupAsk, "fit": groupAsk, "drain": groupAsk, "queue": groupAsk,
	"top": groupAsk, "snapshot": groupAsk, "replay": groupAsk,
	"preflight": groupAdopt, "shadow": groupAdopt, "compare": groupAdopt,
	"scheduler": groupRun,
}

// ofKubectl is the annotation of the flags that all commands of kubectl have.
const ofKubectl = "berth_of_kubectl"

// addHelp gives all commands a help with usage and examples first, and the root its
// groups. A plugin of kubectl is called "kubectl berth", and the scheduler is hidden.
func addHelp(root *cobra.Command, plugin bool) {
	root.AddGroup(
		&cobra.Group{ID: groupAsk, Title: "Inspect a cluster:"},
		&cobra.Group{ID: groupAdopt, Title: "Adopt Berth, or change its configuration:"},
	)
	if plugin {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl berth"}
	} else {
		root.AddGroup(&cobra.Group{ID: groupRun, Title: "Run the scheduler:"})
	}
	root.AddCommand(newOptionsCommand(), newManCommand())
	root.SetHelpCommand(newHelpCommand())
	for _, cmd := range root.Commands() {
		cmd.GroupID = groupOfVerb[cmd.Name()]
		if plugin && cmd.GroupID == groupRun {
			cmd.GroupID, cmd.Hidden = "", true
		}
		if cmd.Name() != "scheduler" { // has kube-scheduler's help
			cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printUsage(cmd.OutOrStdout(), cmd) })
		}
	}
}

// newHelpCommand returns the help command. The library's own prints the help of the root,
// with exit code 0, for a command that does not exist.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil {
				return wrong{err}
			}
			if len(rest) > 0 {
				return subcommand(of, rest)
			}
			return of.Help()
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) (names []string, _ cobra.ShellCompDirective) {
			if of, rest, err := cmd.Root().Find(args); err == nil && len(rest) == 0 {
				for _, sub := range of.Commands() {
					if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), typed) {
						names = append(names, sub.Name())
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// printUsage prints the help of a command.
func printUsage(w io.Writer, cmd *cobra.Command) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s.\n\nUsage:\n  %s\n", cmd.Short, cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", asCalled(cmd, cmd.Example))
	}
	if text := strings.TrimPrefix(cmd.Long, cmd.Short+".\n\n"); text != "" {
		fmt.Fprintf(&b, "\n%s\n", asCalled(cmd, text))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nCommands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-12s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	own, kubectl := splitFlags(cmd.Flags())
	if own.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", own.FlagUsagesWrapped(helpWidth(w)))
	}
	if kubectl.HasAvailableFlags() {
		fmt.Fprintf(&b, "\nkubectl's flags, such as --kubeconfig, --context and --as, work too: see %q.\n",
			cmd.Root().DisplayName()+" options")
	}
	_, _ = w.Write(b.Bytes()) // the help has no exit code for this
}

// helpWidth is the width of flags in a help: of the terminal, but not too wide to read.
func helpWidth(w io.Writer) int {
	const readable = 120
	if width := widthOf(w); width > 0 {
		return min(width, readable)
	}
	return readable
}

// asCalled replaces the name of the command in examples by the name it was called by.
func asCalled(cmd *cobra.Command, text string) string {
	name := cmd.Root().DisplayName()
	for _, before := range []string{"  ", "\"", "in ", "\n"} {
		for _, written := range []string{"kubectl berth ", "berth "} {
			text = strings.ReplaceAll(text, before+written, before+"\x00 ")
		}
	}
	return strings.ReplaceAll(text, "\x00", name)
}

// splitFlags splits flags into a command's own and kubectl's.
func splitFlags(flags *pflag.FlagSet) (own, kubectl *pflag.FlagSet) {
	own, kubectl = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(flag *pflag.Flag) {
		if _, of := flag.Annotations[ofKubectl]; of {
			kubectl.AddFlag(flag)
		} else {
			own.AddFlag(flag)
		}
	})
	return own, kubectl
}

func newOptionsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the kubectl flags that the commands for a live cluster accept",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			newConnection(flags)
			w := cmd.OutOrStdout()
			_, err := fmt.Fprintf(w, "These flags can be passed to any command that reads a live cluster:\n\n%s", flags.FlagUsagesWrapped(helpWidth(w)))
			return err
		},
	}
}

// noArguments rejects arguments.
func noArguments(cmd *cobra.Command, args []string) error {
	if err := cobra.NoArgs(cmd, args); err != nil {
		return wrong{err}
	}
	return nil
}
