package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Paths in the image. A static pod's command is `kube-scheduler`, found through PATH.
const (
	binaryPath = "usr/local/bin/kube-scheduler"
	linkPath   = "usr/local/bin/berth"
	rootsPath  = "etc/ssl/certs/ca-certificates.crt"
	searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Users of the image. It starts as root unless the pod sets a user, like kube-scheduler's
// image: kubeadm's static pod names no user, and only root can read its kubeconfig. A
// Deployment sets runAsUser: 65532.
const (
	passwd = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	group  = "root:x:0:\nnonroot:x:65532:\n"
)

// roots returns Mozilla's root certificates, for extenders and trace collectors with
// public certificates. The API server's CA is in the kubeconfig. The roots come from a Go
// module, because each machine's own would give another image. A certificate file cannot
// express that a root is valid only for certificates before a date, so such roots are
// left out.
func roots() []byte {
	var text bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			// writes to a buffer cannot fail
			_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return text.Bytes()
}

// entry is a layer's file, folder (its name ends with a slash) or link.
type entry struct {
	name    string
	mode    fs.FileMode
	content []byte
	link    string
}

// newLayer returns a layer of entries, all owned by root and with the same time.
func newLayer(made time.Time, entries ...entry) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(e.content)), ModTime: made, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
		switch {
		case e.link != "":
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("layer: %s: %w", e.name, err)
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, fmt.Errorf("layer: %s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil }
	return tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}

// labels name the image's source.
func labels(commit string, made time.Time) map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":    "berth",
		"org.opencontainers.image.source":   "https://github.com/berth-scheduler/berth",
		"org.opencontainers.image.revision": commit,
		"org.opencontainers.image.created":  made.Format(time.RFC3339),
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
}

// newImage returns a platform's image: a binary and the files that it reads, nothing
// else.
func newImage(p platform, binary []byte, commit string, made time.Time) (v1.Image, error) {
	base, err := newLayer(made,
		entry{name: "etc/", mode: 0o755}, entry{name: "etc/passwd", mode: 0o644, content: []byte(passwd)}, entry{name: "etc/group", mode: 0o644, content: []byte(group)},
		entry{name: "etc/ssl/", mode: 0o755}, entry{name: "etc/ssl/certs/", mode: 0o755}, entry{name: rootsPath, mode: 0o644, content: roots()})
	if err != nil {
		return nil, err
	}
	program, err := newLayer(made,
		entry{name: "usr/", mode: 0o755}, entry{name: "usr/local/", mode: 0o755}, entry{name: "usr/local/bin/", mode: 0o755},
		entry{name: binaryPath, mode: 0o755, content: binary}, entry{name: linkPath, mode: 0o777, link: filepath.Base(binaryPath)})
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	if image, err = mutate.AppendLayers(image, base, program); err != nil {
		return nil, fmt.Errorf("image for %s: %w", p, err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image for %s: %w", p, err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = p.os, p.arch, v1.Time{Time: made}
	file.Config = v1.Config{Entrypoint: []string{"/" + linkPath}, Env: []string{"PATH=" + searchPath}, WorkingDir: "/", Labels: labels(commit, made)}
	return mutate.ConfigFile(image, file)
}

// writeImage builds the image for some platforms, writes it as an OCI archive, and
// returns its digest.
func writeImage(ctx context.Context, s *source, platforms []platform, output string) (digest v1.Hash, err error) {
	commit, made, err := s.commit(ctx)
	if err != nil {
		return v1.Hash{}, err
	}
	folder, err := os.MkdirTemp("", "berth-image-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer os.RemoveAll(folder)
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range platforms {
		if p.os != "linux" {
			return v1.Hash{}, usage{fmt.Errorf("--platform %q: an image must be for linux, such as linux/amd64", p)}
		}
		fmt.Fprintln(os.Stderr, "building", p)
		binary := filepath.Join(folder, "berth-"+p.arch)
		if err := s.build(ctx, p, binary); err != nil {
			return v1.Hash{}, err
		}
		content, err := os.ReadFile(binary)
		if err != nil {
			return v1.Hash{}, err
		}
		image, err := newImage(p, content, commit, made)
		if err != nil {
			return v1.Hash{}, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
	}
	archive := filepath.Join(folder, "archive")
	path, err := layout.Write(archive, empty.Index)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("write the image: %w", err)
	}
	if err := path.AppendIndex(index); err != nil {
		return v1.Hash{}, fmt.Errorf("write the image: %w", err)
	}
	if err := pack(archive, output, made); err != nil {
		return v1.Hash{}, fmt.Errorf("write %s: %w", output, err)
	}
	return index.Digest()
}

// pack writes a folder's files into an archive, sorted by name and with the same time.
func pack(folder, output string, made time.Time) (err error) {
	file, err := os.Create(output)
	if err != nil {
		return err
	}
	defer func() {
		if failed := file.Close(); err == nil {
			err = failed
		}
	}()
	w := tar.NewWriter(file)
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(name), Mode: 0o644, Size: int64(len(content)), ModTime: made, Format: tar.FormatUSTAR}); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}

// open unpacks an OCI archive into a folder and returns the image in it.
func open(archive, folder string) (v1.ImageIndex, error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := unpack(file, folder); err != nil {
		return nil, fmt.Errorf("read %s: %w", archive, err)
	}
	index, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", archive, err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", archive, err)
	}
	if n := len(manifest.Manifests); n != 1 {
		return nil, fmt.Errorf("read %s: it has %d images, must have one, as `make image` writes it", archive, n)
	}
	return index.ImageIndex(manifest.Manifests[0].Digest)
}

// unpackImage writes the file system of the image for a platform into a folder.
func unpackImage(archive string, p platform, folder string) error {
	content, err := os.MkdirTemp("", "berth-unpack-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(content)
	index, err := open(archive, content)
	if err != nil {
		return err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return fmt.Errorf("read %s: %w", archive, err)
	}
	for _, d := range manifest.Manifests {
		if d.Platform == nil || d.Platform.OS != p.os || d.Platform.Architecture != p.arch {
			continue
		}
		image, err := index.Image(d.Digest)
		if err != nil {
			return fmt.Errorf("read %s: %w", archive, err)
		}
		files := mutate.Extract(image)
		defer files.Close()
		return unpack(files, folder)
	}
	return fmt.Errorf("%s has no image for %s", archive, p)
}

// unpack writes an archive's files, folders and links into a folder and nowhere else.
func unpack(archive io.Reader, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := unpackEntry(root, h, r); err != nil {
			return fmt.Errorf("unpack %s: %w", h.Name, err)
		}
	}
}

func unpackEntry(root *os.Root, h *tar.Header, content io.Reader) error {
	if err := root.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(strings.TrimSuffix(h.Name, "/"), mode)
	case tar.TypeSymlink:
		return root.Symlink(h.Linkname, h.Name)
	case tar.TypeReg:
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		if err := root.WriteFile(h.Name, data, mode); err != nil {
			return err
		}
		return root.Chmod(h.Name, mode) // regardless of the umask
	}
	return fmt.Errorf("entries of type %q are not expected", h.Typeflag)
}

// push pushes an archive to a registry and returns the digest.
func push(ctx context.Context, archive, reference string) (v1.Hash, error) {
	to, err := name.ParseReference(reference, name.StrictValidation)
	if err != nil {
		return v1.Hash{}, usage{fmt.Errorf("REFERENCE %q: must be as registry.example/berth:v0.1.0: %w", reference, err)}
	}
	folder, err := os.MkdirTemp("", "berth-push-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer os.RemoveAll(folder)
	index, err := open(archive, folder)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := remote.WriteIndex(to, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return v1.Hash{}, fmt.Errorf("push %s to %s: %w", archive, to, err)
	}
	return index.Digest()
}
