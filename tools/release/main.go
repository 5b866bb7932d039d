// Command release builds the published artifacts of a Berth commit: a container image and
// binaries. It needs Go and git, and no container engine.
//
// It takes a clone of the repository and returns an OCI archive, or binaries with their
// checksums. It owns the output files. It never reads anything that differs between
// machines: the same commit and the same version of Go give the same bytes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "Error: %v\n", err)
	if errors.As(err, new(usage)) {
		os.Exit(2)
	}
	os.Exit(1)
}

// usage is an error on the command line.
type usage struct{ error }

func newCommand() *cobra.Command {
	root := &cobra.Command{
		Use: "release", Short: "Build what is published of a commit of Berth", SilenceErrors: true, SilenceUsage: true,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage{fmt.Errorf("unknown command %q: must be image, binaries, push or unpack", args[0])}
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error {
			return usage{errors.New("no command is given: must be image, binaries, push or unpack")}
		},
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage{err} })
	root.AddCommand(newImageCommand(), newBinariesCommand(), newPushCommand(), newUnpackCommand())
	return root
}

// exactly is cobra.ExactArgs with the exit code of a usage error.
func exactly(n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := cobra.ExactArgs(n)(cmd, args); err != nil {
			return usage{fmt.Errorf("%w: usage: %s", err, cmd.UseLine())}
		}
		return nil
	}
}

func newImageCommand() *cobra.Command {
	s := &source{}
	var output string
	var names []string
	cmd := &cobra.Command{
		Use: "image", Short: "Build the container image as an OCI archive; its digest is printed", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			platforms, err := parsePlatforms(names)
			if err != nil {
				return usage{err}
			}
			digest, err := writeImage(cmd.Context(), s, platforms, output)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), digest)
			return nil
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVar(&output, "output", "berth.tar", "The archive to write.")
	cmd.Flags().StringSliceVar(&names, "platform", []string{"linux/amd64", "linux/arm64"}, "The platforms of the image, as OS/ARCHITECTURE.")
	return cmd
}

func newBinariesCommand() *cobra.Command {
	s := &source{}
	var output string
	var names []string
	cmd := &cobra.Command{
		Use: "binaries", Short: "Build the binaries, archives of them and a manifest for krew, and SHA256SUMS", Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			platforms, err := parsePlatforms(names)
			if err != nil {
				return usage{err}
			}
			return writeBinaries(cmd.Context(), s, platforms, output)
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVar(&output, "output", "release", "The folder to write to.")
	cmd.Flags().StringSliceVar(&names, "platform", released, "The platforms to build for, as OS/ARCHITECTURE.")
	return cmd
}

// released are the platforms of a release's binaries.
var released = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

func newPushCommand() *cobra.Command {
	return &cobra.Command{
		Use: "push ARCHIVE REFERENCE", Short: "Push an archive to a registry, with the credentials of `docker login`, `podman login` or the like", Args: exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			digest, err := push(cmd.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), digest)
			return nil
		},
	}
}

func newUnpackCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "unpack ARCHIVE FOLDER", Short: "Write the file system of an archive's image into a folder", Args: exactly(2),
		RunE: func(_ *cobra.Command, args []string) error {
			platforms, err := parsePlatforms([]string{name})
			if err != nil {
				return usage{err}
			}
			return unpackImage(args[0], platforms[0], args[1])
		},
	}
	cmd.Flags().StringVar(&name, "platform", "linux/"+runtime.GOARCH, "The platform of the image, as OS/ARCHITECTURE.")
	return cmd
}

// flags adds the build flags.
func (s *source) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.folder, "source", filepath.Join("..", ".."), "The clone of Berth to build.")
	cmd.Flags().StringVar(&s.ldflags, "ldflags", "-s -w", "Flags of Go's linker.")
}
