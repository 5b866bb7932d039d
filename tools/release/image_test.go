package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// clone returns a clone of this repository's commit in a separate folder.
func clone(t *testing.T) *source {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "clone")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", filepath.Join("..", ".."), folder).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v\n%s", err, out)
	}
	return &source{folder: folder, ldflags: "-s -w"}
}

// TestImage builds from two clones with different folder names and expects the same
// archive. It checks the files' permissions, the commit's label and a push.
func TestImage(t *testing.T) {
	s, platforms := clone(t), []platform{{"linux", runtime.GOARCH}}
	archive, again := filepath.Join(t.TempDir(), "one.tar"), filepath.Join(t.TempDir(), "two.tar")
	digest, err := writeImage(t.Context(), s, platforms, archive)
	if err != nil {
		t.Fatal(err)
	}
	second, err := writeImage(t.Context(), clone(t), platforms, again)
	if err != nil {
		t.Fatal(err)
	}
	if digest != second || read(t, archive) != read(t, again) {
		t.Errorf("two builds of one commit are %s and %s", digest, second)
	}

	root := filepath.Join(t.TempDir(), "root")
	if err := unpackImage(archive, platforms[0], root); err != nil {
		t.Fatal(err)
	}
	var files []string
	if err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, _ := d.Info()
			files = append(files, fmt.Sprintf("%s %s", info.Mode(), strings.TrimPrefix(path, root)))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"-rw-r--r-- /etc/group", "-rw-r--r-- /etc/passwd", "-rw-r--r-- /etc/ssl/certs/ca-certificates.crt",
		"Lrwxrwxrwx /usr/local/bin/berth", "-rwxr-xr-x /usr/local/bin/kube-scheduler",
	}
	if !slices.Equal(files, want) {
		t.Errorf("the image has %q, want %q", files, want)
	}
	commit, _, err := s.commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, linkPath), "version").Output()
	if err != nil || !strings.Contains(string(out), commit[:12]) {
		t.Errorf("berth version prints %q, %v, want commit %s", out, err, commit)
	}

	server := httptest.NewServer(registry.New())
	defer server.Close()
	reference := strings.TrimPrefix(server.URL, "http://") + "/berth:v0"
	if pushed, err := push(t.Context(), archive, reference); err != nil || pushed != digest {
		t.Fatalf("pushed %s, %v, want %s", pushed, err, digest)
	}
	to, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	index, err := remote.Index(to)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.String() != "linux/"+runtime.GOARCH {
		t.Fatalf("the registry has %+v, %v", manifest, err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	// kubeadm's static pod names no user, and only root reads its kubeconfig.
	if c := file.Config; c.User != "" || !slices.Equal(c.Entrypoint, []string{"/usr/local/bin/berth"}) || c.Labels["org.opencontainers.image.revision"] != commit {
		t.Errorf("the image's configuration is %+v", c)
	}
}

// TestBinaries checks SHA256SUMS in the form for sha256sum -c.
func TestBinaries(t *testing.T) {
	folder := t.TempDir()
	if err := writeBinaries(t.Context(), clone(t), []platform{{"linux", runtime.GOARCH}}, folder); err != nil {
		t.Fatal(err)
	}
	name := "berth-linux-" + runtime.GOARCH
	want := ""
	for _, name := range []string{name, name + ".tar.gz"} {
		want += fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(read(t, filepath.Join(folder, name)))), name)
	}
	if got := read(t, filepath.Join(folder, "SHA256SUMS")); got != want {
		t.Errorf("SHA256SUMS is %q, want %q", got, want)
	}
}

func TestRoots(t *testing.T) {
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(roots()) {
		t.Error("no certificates")
	}
	if n := bytes.Count(roots(), []byte("BEGIN CERTIFICATE")); n < 50 {
		t.Errorf("%d roots", n)
	}
}

// TestChangedClone expects an error for uncommitted changes.
func TestChangedClone(t *testing.T) {
	s := clone(t)
	if err := os.WriteFile(filepath.Join(s.folder, "new.go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := writeImage(t.Context(), s, []platform{{"linux", runtime.GOARCH}}, filepath.Join(t.TempDir(), "x.tar")); err == nil || !strings.Contains(err.Error(), "?? new.go") {
		t.Errorf("the error is %v", err)
	}
}

func TestUsage(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"", "must be image"},
		{"imag", `unknown command "imag"`},
		{"image --platform linux", `--platform "linux": must be OS/ARCHITECTURE`},
		{"binaries --platform /amd64", `--platform "/amd64": must be OS/ARCHITECTURE`},
		{"image --no-such", "unknown flag"},
		{"push a.tar", "push ARCHIVE REFERENCE"},
		{"push a.tar UPPER", `REFERENCE "UPPER": must be`},
	} {
		cmd := newCommand()
		cmd.SetArgs(strings.Fields(row.args))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !errors.As(err, new(usage)) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%q: the error is %v, want %q", row.args, err, row.want)
		}
	}
}

// TestUnpackStaysInside expects an error for an archive that would write outside its
// folder.
func TestUnpackStaysInside(t *testing.T) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	if err := w.WriteHeader(&tar.Header{Name: "../outside", Typeflag: tar.TypeReg, Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "inside")
	if err := unpack(&archive, folder); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(folder), "outside")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it was written")
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
