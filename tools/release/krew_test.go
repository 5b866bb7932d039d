package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// krewManifest is the used part of a plugin manifest in krew's index
// (krew.googlecontainertools.github.com/v1alpha2).
type krewManifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		Homepage         string `json:"homepage"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Caveats          string `json:"caveats"`
		Platforms        []struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			URI    string `json:"uri"`
			Sha256 string `json:"sha256"`
			Bin    string `json:"bin"`
		} `json:"platforms"`
	} `json:"spec"`
}

// parsed parses a manifest as strictly as krew's index.
func parsed(t *testing.T, text string) krewManifest {
	t.Helper()
	var m krewManifest
	if err := yaml.UnmarshalStrict([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" || m.Metadata.Name != "berth" ||
		m.Spec.ShortDescription == "" || len(m.Spec.ShortDescription) > 50 || m.Spec.Description == "" {
		t.Errorf("the manifest is %+v", m)
	}
	return m
}

// TestKrewManifest fills the manifest like a release. Its platforms and names must be
// exactly the built ones.
func TestKrewManifest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", manifestFile))
	if err != nil {
		t.Fatal(err)
	}
	parsed(t, string(text))
	all, err := parsePlatforms(released)
	if err != nil {
		t.Fatal(err)
	}
	sums, bins, left := map[string][sha256.Size]byte{}, map[string]string{}, map[platform]bool{}
	for _, p := range all {
		archive, binary := archiveOf(p)
		sums[archive], bins[archive], left[p] = sha256.Sum256([]byte(archive)), binary, true
	}
	filled, err := fillManifest(string(text), "v1.2.3", sums)
	if err != nil {
		t.Fatal(err)
	}
	m := parsed(t, filled)
	if m.Spec.Version != "v1.2.3" {
		t.Errorf("the version is %q", m.Spec.Version)
	}
	for _, row := range m.Spec.Platforms {
		p := platform{row.Selector.MatchLabels["os"], row.Selector.MatchLabels["arch"]}
		archive, binary := archiveOf(p)
		sum := sums[archive]
		if !left[p] || row.Bin != binary || row.URI != "https://github.com/berth-scheduler/berth/releases/download/v1.2.3/"+archive || row.Sha256 != hex.EncodeToString(sum[:]) {
			t.Errorf("the row of %s is %+v", p, row)
		}
		delete(left, p)
	}
	if len(left) > 0 {
		t.Errorf("there is no row for %v", slices.Collect(maps.Keys(left)))
	}
	delete(sums, "berth-linux-arm64.tar.gz")
	if _, err := fillManifest(string(text), "v1.2.3", sums); err == nil || !strings.Contains(err.Error(), "berth-linux-arm64.tar.gz") {
		t.Errorf("an archive that was not built: %v", err)
	}
	if strings.Contains(filled, "VERSION") {
		text := regexp.MustCompile(`(?m)^[^#].*VERSION.*$`).FindString(filled)
		if text != "" {
			t.Errorf("left: %s", text)
		}
	}
}

// TestArchive writes the same bytes for the same contents, with the binary executable.
func TestArchive(t *testing.T) {
	folder, made := t.TempDir(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, name := range []string{"a", "b"} {
		if err := writeArchive(filepath.Join(folder, name), "kubectl-berth", []byte("binary"), []byte("license"), made); err != nil {
			t.Fatal(err)
		}
	}
	text := read(t, filepath.Join(folder, "a"))
	if text != read(t, filepath.Join(folder, "b")) {
		t.Error("two archives of the same contents differ")
	}
	packed, err := gzip.NewReader(bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(packed)
	var names []string
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		if header.Name == "kubectl-berth" && header.Mode != 0o755 || !header.ModTime.Equal(made) {
			t.Errorf("header %+v", header)
		}
	}
	if !slices.Equal(names, []string{"kubectl-berth", "LICENSE"}) {
		t.Errorf("the archive has %q", names)
	}
}
