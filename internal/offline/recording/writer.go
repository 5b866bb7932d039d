package recording

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
)

// Limits of a Writer.
const (
	// maxPending is the number of changes and decisions that wait to be written, besides
	// one batch of any size, such as the first list. Beyond it, as with a disk that
	// hangs, the recording ends.
	maxPending = 1 << 17
	// maxClose is the time that Close waits for a disk.
	maxClose = 5 * time.Second
	// flushEvery is the time that a crash may lose.
	flushEvery = time.Second
	// frameBytes is the size of a compressed frame before compression. Each frame has a
	// checksum at its end.
	frameBytes = 16 << 20
)

// Suffix is the suffix of the name of a recording.
const Suffix = ".berth.zst"

// item is an input of the loop, or a decision. It shares what the loop does not change.
type item struct {
	round    *Round
	changes  []model.Change
	takeover *TakeOver
	attempt  *attempt
}

// attempt is what remains of an attempt after the round.
type attempt struct {
	plan.Attempt
	members []plan.Decision
}

// Writer records a loop into a file. It is a loop.Recorder. The loop never waits for the
// disk: a goroutine encodes and writes. After an error, at the size limit, or if too much
// waits to be written, the recording ends with a note, and scheduling goes on.
type Writer struct {
	onEnd func(reason error)
	limit int64

	mu      sync.Mutex
	pending []item
	count   int   // of changes and decisions in pending
	ended   error // why nothing more is recorded
	work    chan struct{}
	done    chan struct{}
	tell    sync.Once

	to  *counted
	zip *zstd.Encoder
	// inFrame is the number of bytes in the present frame, before compression. unflushed
	// means that some of them are not in the file.
	inFrame   int
	unflushed bool
	buffer    []byte
}

// Create creates a recording in a directory. maxBytes limits its size. onEnd is called
// when the recording ends before Close, with the reason.
func Create(directory, name string, header *Header, maxBytes int64, onEnd func(reason error)) (w *Writer, file string, err error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, "", err
	}
	file = filepath.Join(directory, name+Suffix)
	// a recording has the names and labels of all objects
	to, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, "", err
	}
	if w, err = NewWriter(to, header, maxBytes, onEnd); err != nil {
		_ = to.Close()
		return nil, "", err
	}
	return w, file, nil
}

// NewWriter records to a writer, which it closes.
func NewWriter(to io.WriteCloser, header *Header, maxBytes int64, onEnd func(reason error)) (*Writer, error) {
	header.Format = Format
	counting := &counted{to: to}
	zip, err := zstd.NewWriter(counting, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return nil, err
	}
	w := &Writer{onEnd: onEnd, limit: maxBytes, work: make(chan struct{}, 1), done: make(chan struct{}), to: counting, zip: zip}
	if err := w.append(headerEntry, header.encode()); err != nil {
		return nil, err
	}
	if err := w.flush(); err != nil {
		return nil, err
	}
	go w.run()
	return w, nil
}

// Round records the beginning of a round.
func (w *Writer) Round(now, wall time.Time, decides bool) {
	w.add(item{round: &Round{now, wall, decides}}, 1)
}

// Drained records changes.
func (w *Writer) Drained(changes []model.Change) { w.add(item{changes: changes}, len(changes)) }

// Decided records the decisions of an attempt.
func (w *Writer) Decided(a *plan.Attempt) {
	kept := &attempt{Attempt: plan.Attempt{Group: a.Group}, members: append([]plan.Decision(nil), a.Members...)}
	w.add(item{attempt: kept}, len(kept.members))
}

// TookOver records that the process takes over.
func (w *Writer) TookOver(leader string, now time.Time) {
	w.add(item{takeover: &TakeOver{leader, now}}, 1)
}

func (w *Writer) add(i item, count int) {
	w.mu.Lock()
	full := false
	switch {
	case w.ended != nil:
	case w.count > 0 && w.count+count > maxPending:
		w.ended = fmt.Errorf("%d inputs and decisions wait to be written, is the disk slow?", w.count)
		w.pending, full = nil, true
	default:
		w.pending = append(w.pending, i)
		w.count += count
	}
	reason := w.ended
	w.mu.Unlock()
	if full {
		w.told(reason) // the disk may hang for ever
	}
	select {
	case w.work <- struct{}{}:
	default:
	}
}

// told calls onEnd once.
func (w *Writer) told(reason error) {
	w.tell.Do(func() {
		if w.onEnd != nil {
			w.onEnd(reason)
		}
	})
}

// errClosed ends a recording without a note.
var errClosed = errors.New("the recording is closed")

// Close writes the rest and closes the file. If the disk hangs, it gives up.
func (w *Writer) Close() error {
	w.mu.Lock()
	if w.ended == nil {
		w.ended = errClosed
	}
	w.mu.Unlock()
	select {
	case w.work <- struct{}{}:
	default:
	}
	select {
	case <-w.done:
		return w.to.err
	case <-time.After(maxClose):
		return fmt.Errorf("the end was not written within %v", maxClose)
	}
}

func (w *Writer) run() {
	defer close(w.done)
	timer := time.NewTimer(flushEvery)
	defer timer.Stop()
	for {
		var due <-chan time.Time
		if w.unflushed {
			due = timer.C
		}
		select {
		case <-w.work:
			if !w.unflushed {
				timer.Reset(flushEvery)
			}
		case <-due:
			if err := w.flush(); err != nil {
				w.end(err)
				return
			}
			continue
		}
		w.mu.Lock()
		items, ended := w.pending, w.ended
		w.pending, w.count = nil, 0
		w.mu.Unlock()
		err := w.writeAll(items)
		if err == nil { // an earlier end is the reason, even while the file is closed
			err = ended
		}
		if err != nil {
			w.end(err)
			return
		}
	}
}

// errFull means that the recording has reached its limit.
var errFull = errors.New("the recording has reached its size limit")

func (w *Writer) writeAll(items []item) error {
	for i := range items {
		if err := w.write(&items[i]); err != nil {
			return err
		}
		if w.to.bytes > w.limit {
			return errFull
		}
	}
	return nil
}

// end closes the file, with the reason unless it was closed regularly.
func (w *Writer) end(reason error) {
	w.mu.Lock()
	w.ended, w.pending = reason, nil
	w.mu.Unlock()
	closed := errors.Is(reason, errClosed) && w.to.err == nil
	if !closed && w.to.err == nil {
		gap := Gap{reason.Error()}
		_ = w.append(gapEntry, gap.encode()) // counted keeps the error
	}
	_ = w.zip.Close()
	if err := w.to.to.Close(); w.to.err == nil {
		w.to.err = err
	}
	if !closed {
		w.told(reason)
	}
}

func (w *Writer) write(i *item) error {
	switch {
	case i.round != nil:
		return w.append(roundEntry, i.round.encode())
	case i.takeover != nil:
		return w.append(takeoverEntry, i.takeover.encode())
	case i.attempt != nil:
		for m := range i.attempt.members {
			d := DecisionOf(&i.attempt.Attempt, &i.attempt.members[m])
			if err := w.append(decisionEntry, d.encode()); err != nil {
				return err
			}
		}
	}
	for c := range i.changes {
		change, err := changeOf(&i.changes[c])
		if err != nil {
			return err
		}
		if err := w.append(changeEntry, change.encode()); err != nil {
			return err
		}
	}
	return nil
}

// append appends an entry, and begins a new frame when the present one is large.
func (w *Writer) append(kind protowire.Number, m message) error {
	w.buffer = appendEntry(w.buffer[:0], kind, m)
	n, err := w.zip.Write(w.buffer)
	w.inFrame, w.unflushed = w.inFrame+n, true
	if err != nil || w.inFrame < frameBytes {
		return err
	}
	if err := w.zip.Close(); err != nil {
		return err
	}
	w.zip.Reset(w.to)
	w.inFrame, w.unflushed = 0, false
	return nil
}

func (w *Writer) flush() error {
	w.unflushed = false
	return w.zip.Flush()
}

// counted counts the bytes that are written, and keeps the first error.
type counted struct {
	to    io.WriteCloser
	bytes int64
	err   error
}

// Write writes.
func (c *counted) Write(data []byte) (int, error) {
	n, err := c.to.Write(data)
	c.bytes += int64(n)
	if c.err == nil {
		c.err = err
	}
	return n, err
}
