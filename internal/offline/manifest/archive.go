package manifest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
)

// maxUnpacked limits the bytes that one archive may unpack to.
const maxUnpacked = 8 << 30

// unpack returns the manifests of an archive, which is recognized by its content. It may
// be a zip file, such as snapshot.json from the endpoint /get-snapshot of KAI Scheduler,
// or a tar file, such as a must-gather of OpenShift. Either may be compressed with gzip.
// Any other source is returned unchanged.
func unpack(s source, most int64) ([]source, error) {
	if bytes.HasPrefix(s.data, []byte("\x1f\x8b")) {
		packed, err := gzip.NewReader(bytes.NewReader(s.data))
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		u := unpacking{left: most}
		if s.data, err = u.read(packed); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		most = u.left
	}
	u := unpacking{archive: s, left: most}
	switch {
	case bytes.HasPrefix(s.data, []byte("PK\x03\x04")), bytes.HasPrefix(s.data, []byte("PK\x05\x06")):
		err := u.zip()
		return u.sources, err
	case len(s.data) > 262 && string(s.data[257:262]) == "ustar":
		err := u.tar()
		return u.sources, err
	}
	return []source{s}, nil
}

// unpacking is an archive while it is unpacked.
type unpacking struct {
	archive source
	left    int64 // number of bytes that it may still unpack to
	sources []source
}

// read reads to the end of r, within the limit.
func (u *unpacking) read(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, u.left+1))
	if u.left -= int64(len(data)); err == nil && u.left < 0 {
		err = errors.New("the archive unpacks to too many bytes; unpack it, and give the directory")
	}
	return data, err
}

// take reads a file of the archive.
func (u *unpacking) take(name string, r io.Reader) error {
	data, err := u.read(r)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	given := u.archive.given
	u.sources = append(u.sources, source{name: path.Join(u.archive.name, name), given: given, found: true, data: data})
	return nil
}

func (u *unpacking) zip() error {
	archive, err := zip.NewReader(bytes.NewReader(u.archive.data), int64(len(u.archive.data)))
	if err != nil {
		return err
	}
	for _, entry := range archive.File {
		if !isManifest(entry.Name) || entry.FileInfo().IsDir() {
			continue
		}
		r, err := entry.Open()
		if err != nil {
			return fmt.Errorf("%s: %w", entry.Name, err)
		}
		if err := errors.Join(u.take(entry.Name, r), r.Close()); err != nil {
			return err
		}
	}
	return u.some()
}

func (u *unpacking) tar() error {
	archive := tar.NewReader(bytes.NewReader(u.archive.data))
	for {
		entry, err := archive.Next()
		switch {
		case err == io.EOF:
			return u.some()
		case err != nil:
			return err
		case entry.Typeflag != tar.TypeReg || !isManifest(entry.Name):
			continue
		}
		if err := u.take(entry.Name, archive); err != nil {
			return err
		}
	}
}

// some returns an error if the archive has no manifest.
func (u *unpacking) some() error {
	if len(u.sources) == 0 {
		return errors.New("the archive has no *.yaml, *.yml or *.json file")
	}
	return nil
}
