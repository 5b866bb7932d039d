package recording

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"
)

// maxEntry bounds the size of an entry, so that a foreign file cannot use up the memory.
// An object of the API server has at most 3 MiB.
const maxEntry = 64 << 20

// Entry is an input of the loop, or a decision. Exactly one field is set.
type Entry struct {
	Round    *Round
	Change   *Change
	Decision *Decision
	TakeOver *TakeOver
	Gap      *Gap
}

// Reader reads a recording.
type Reader struct {
	Header Header
	name   string
	file   *progress
	zip    *zstd.Decoder
	from   *bufio.Reader
}

// Open opens a recording. Errors name the file.
func Open(name string) (*Reader, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	r, err := NewReader(name, file)
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	if info, err := file.Stat(); err == nil {
		r.file.size = info.Size()
	}
	return r, nil
}

// Progress returns how many of the bytes of the file were read. size is 0 if it is
// unknown.
func (r *Reader) Progress() (read, size int64) { return r.file.read, r.file.size }

type progress struct {
	io.ReadCloser
	read, size int64
}

// Read reads.
func (p *progress) Read(data []byte) (int, error) {
	n, err := p.ReadCloser.Read(data)
	p.read += int64(n)
	return n, err
}

// NewReader reads the header of a recording. The name is for errors.
func NewReader(name string, from io.ReadCloser) (*Reader, error) {
	file := &progress{ReadCloser: from}
	zip, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return nil, err
	}
	r := &Reader{name: name, file: file, zip: zip, from: bufio.NewReaderSize(zip, 64<<10)}
	kind, data, err := r.entry()
	if err != nil || kind != headerEntry {
		zip.Close()
		return nil, fmt.Errorf("%s: not a recording of Berth: must be a file that --berth-record has written", name)
	}
	if err := r.Header.decode(data); err != nil {
		zip.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if r.Header.Format != Format {
		zip.Close()
		return nil, fmt.Errorf("%s: format %d: must be %d, use the version of Berth that wrote the file (%s)", name, r.Header.Format, Format, r.Header.Berth)
	}
	return r, nil
}

// Close closes the file.
func (r *Reader) Close() error {
	r.zip.Close()
	return r.file.Close()
}

// ErrEnd means that the file ends in the middle of an entry, as after a crash. The
// entries before are complete.
var ErrEnd = errors.New("the file ends in the middle of an entry, as after a crash")

// Next returns the next entry, and io.EOF at the end.
func (r *Reader) Next() (e Entry, err error) {
	kind, data, err := r.entry()
	switch {
	case errors.Is(err, io.EOF):
		return e, io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return e, fmt.Errorf("%s: %w", r.name, ErrEnd)
	case err != nil:
		return e, fmt.Errorf("%s: %w", r.name, err)
	}
	switch kind {
	case roundEntry:
		e.Round = &Round{}
		err = e.Round.decode(data)
	case changeEntry:
		e.Change = &Change{}
		err = e.Change.decode(data)
	case decisionEntry:
		e.Decision = &Decision{}
		err = e.Decision.decode(data)
	case takeoverEntry:
		e.TakeOver = &TakeOver{}
		err = e.TakeOver.decode(data)
	case gapEntry:
		e.Gap = &Gap{}
		err = e.Gap.decode(data)
	default:
		err = fmt.Errorf("an entry of the unknown type %d", kind)
	}
	if err != nil {
		return e, fmt.Errorf("%s: %w", r.name, err)
	}
	return e, nil
}

// entry reads the type and the message of an entry.
func (r *Reader) entry() (kind protowire.Number, data []byte, err error) {
	tag, err := binary.ReadUvarint(r.from)
	if err != nil {
		return 0, nil, err
	}
	kind, of := protowire.DecodeTag(tag)
	size, err := binary.ReadUvarint(r.from)
	switch {
	case errors.Is(err, io.EOF):
		return 0, nil, io.ErrUnexpectedEOF
	case err != nil:
		return 0, nil, err
	case of != protowire.BytesType || size > maxEntry:
		return 0, nil, errCut
	}
	data = make([]byte, size)
	if _, err = io.ReadFull(r.from, data); errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return kind, data, err
}
