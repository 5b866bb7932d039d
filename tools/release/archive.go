package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// archiveOf returns the names of a platform's krew archive and of the binary in it.
func archiveOf(p platform) (archive, binary string) {
	archive, binary = "berth-"+p.os+"-"+p.arch+".tar.gz", "kubectl-berth"
	if p.os == "windows" {
		binary += ".exe"
	}
	return archive, binary
}

// writeArchive writes a binary and the license into an archive. The same contents and
// time give the same bytes.
func writeArchive(file, binary string, content, license []byte, made time.Time) error {
	var text bytes.Buffer
	packed := gzip.NewWriter(&text)
	archive := tar.NewWriter(packed)
	for _, entry := range []struct {
		name    string
		mode    int64
		content []byte
	}{{binary, 0o755, content}, {"LICENSE", 0o644, license}} {
		header := &tar.Header{Name: entry.name, Mode: entry.mode, Size: int64(len(entry.content)), ModTime: made, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(entry.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	if err := packed.Close(); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// versionTag matches version tags.
var versionTag = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$`)

// version returns the tag of the checked-out commit, or v0.0.0 with the commit.
func (s *source) version(ctx context.Context, commit string) (string, error) {
	tags, err := s.git(ctx, "tag", "--points-at", "HEAD", "--sort=-version:refname")
	if err != nil {
		return "", err
	}
	for _, tag := range strings.Fields(tags) {
		if versionTag.MatchString(tag) {
			return tag, nil
		}
	}
	return "v0.0.0-g" + commit[:12], nil // the letter prevents a number with a leading zero
}

// manifestFile is the krew manifest in the clone, without version and checksums.
var manifestFile = filepath.Join("deploy", "krew", "berth.yaml")

// fillManifest inserts the version and the archives' checksums into the krew manifest.
func fillManifest(manifest, version string, sums map[string][sha256.Size]byte) (string, error) {
	filled := strings.ReplaceAll(manifest, "version: VERSION", "version: "+version)
	filled = strings.ReplaceAll(filled, "/download/VERSION/", "/download/"+version+"/")
	for name, sum := range sums {
		filled = strings.ReplaceAll(filled, "sha256: "+name+"\n", fmt.Sprintf("sha256: %x\n", sum))
	}
	if left := regexp.MustCompile(`sha256: berth-\S+`).FindString(filled); left != "" {
		return "", fmt.Errorf("%s has %q, which is the name of no archive that was built", manifestFile, left)
	}
	return filled, nil
}
