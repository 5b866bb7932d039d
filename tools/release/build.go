package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// source is a clone of the repository and its build flags.
type source struct {
	folder, ldflags string
}

// platform is a binary's platform in the terms of Go and of images, which are equal.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// parsePlatforms parses platforms in the form OS/ARCHITECTURE.
func parsePlatforms(names []string) ([]platform, error) {
	var platforms []platform
	for _, name := range names {
		system, arch, ok := strings.Cut(name, "/")
		if !ok || system == "" || arch == "" || strings.Contains(arch, "/") {
			return nil, fmt.Errorf("--platform %q: must be OS/ARCHITECTURE, such as linux/amd64", name)
		}
		platforms = append(platforms, platform{system, arch})
	}
	if len(platforms) == 0 {
		return nil, fmt.Errorf("--platform: must name at least one, such as linux/amd64")
	}
	return platforms, nil
}

// build builds a platform's binary, with every environment setting fixed that could
// change it. Go reads the version from git, and a build without a version fails. There is
// no DWARF, as in the Makefile, so both share compiled packages.
func (s *source) build(ctx context.Context, p platform, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-gcflags=all=-dwarf=false", "-ldflags="+s.ldflags, "-o", binary, "./cmd/berth")
	cmd.Dir = s.folder
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build for %s in %s: %w\n%s", p, s.folder, err, out)
	}
	return nil
}

// git returns the output of a git command in the clone.
func (s *source) git(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.folder
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s in %s: %w\n%s", strings.Join(args, " "), s.folder, err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}

// commit returns the checked-out commit and its time. A clone with uncommitted changes is
// an error: every published build is reproducible.
func (s *source) commit(ctx context.Context) (hash string, made time.Time, err error) {
	changed, err := s.git(ctx, "status", "--porcelain")
	if err != nil {
		return "", time.Time{}, err
	}
	if changed != "" {
		return "", time.Time{}, fmt.Errorf("%s has changes that are not committed; commit or remove them, because what is published must be what a commit gives:\n%s", s.folder, changed)
	}
	if hash, err = s.git(ctx, "rev-parse", "HEAD"); err != nil {
		return "", time.Time{}, err
	}
	text, err := s.git(ctx, "show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return "", time.Time{}, err
	}
	made, err = time.Parse(time.RFC3339, text)
	return hash, made.UTC(), err
}

// writeBinaries builds binaries into a folder, each also as a krew archive, with a
// SHA256SUMS for sha256sum -c. If all released platforms are built, it writes the krew
// manifest.
func writeBinaries(ctx context.Context, s *source, platforms []platform, folder string) error {
	commit, made, err := s.commit(ctx)
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(s.folder, "LICENSE"))
	if err != nil {
		return err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var sums []string
	archives := map[string][sha256.Size]byte{}
	for _, p := range platforms {
		name := "berth-" + p.os + "-" + p.arch
		if p.os == "windows" {
			name += ".exe"
		}
		fmt.Fprintln(os.Stderr, "building", name)
		if err := s.build(ctx, p, filepath.Join(folder, name)); err != nil {
			return err
		}
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name))
		archive, binary := archiveOf(p)
		if err := writeArchive(filepath.Join(folder, archive), binary, content, license, made); err != nil {
			return fmt.Errorf("write %s: %w", archive, err)
		}
		if content, err = os.ReadFile(filepath.Join(folder, archive)); err != nil {
			return err
		}
		archives[archive] = sha256.Sum256(content)
		sums = append(sums, fmt.Sprintf("%x  %s\n", archives[archive], archive))
	}
	slices.SortFunc(sums, func(a, b string) int { return strings.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	if err := os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(strings.Join(sums, "")), 0o644); err != nil {
		return err
	}
	if len(archives) < len(released) {
		return nil
	}
	return s.writeManifest(ctx, commit, archives, filepath.Join(folder, "krew.yaml"))
}

// writeManifest writes the krew manifest with the version and the checksums.
func (s *source) writeManifest(ctx context.Context, commit string, archives map[string][sha256.Size]byte, file string) error {
	manifest, err := os.ReadFile(filepath.Join(s.folder, manifestFile))
	if err != nil {
		return err
	}
	version, err := s.version(ctx, commit)
	if err != nil {
		return err
	}
	filled, err := fillManifest(string(manifest), version, archives)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(filled), 0o644)
}
