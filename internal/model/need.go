package model

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"unique"
)

// Need is the part of a pod that one plugin depends on, as a comparable value. Needs are
// equal exactly when the plugin's result for every node must be equal. The zero Need
// means that the plugin does not apply to the pod.
//
// A Need is an interned canonical text. Comparing, hashing and copying a Need is as cheap
// as for a pointer, and unused texts are garbage-collected.
type Need struct{ handle unique.Handle[string] }

// NeedOf interns the canonical text of a need. Its format is private to the plugin. It
// must not be empty.
func NeedOf(canonical string) Need { return Need{unique.Make(canonical)} }

// longPrefix begins the text that replaces a long canonical text; the size and the hash
// of the long text follow. No plugin's own text begins with longPrefix.
const longPrefix = "\x00sha256:"

// LongNeedOf returns a need that is identified by the hash of its canonical text. The
// text is not kept.
func LongNeedOf(canonical []byte) Need {
	sum := sha256.Sum256(canonical)
	text := binary.BigEndian.AppendUint64([]byte(longPrefix), uint64(len(canonical)))
	return NeedOf(string(append(text, sum[:]...)))
}

// LongText is the length in bytes from which a hash identifies a canonical text. A pod
// may have a text of a megabyte, which would be retained with every result computed for
// the need.
const LongText = 4 << 10

// NeedOfText returns the need of a canonical text, and whether the text is long.
func NeedOfText(canonical []byte) (need Need, long bool) {
	if len(canonical) >= LongText {
		return LongNeedOf(canonical), true
	}
	return NeedOf(string(canonical)), false
}

// Size returns the length of the canonical text in bytes, even if the text is not kept.
func (n Need) Size() int {
	text := n.String()
	if size, long := strings.CutPrefix(text, longPrefix); long {
		return int(binary.BigEndian.Uint64([]byte(size)))
	}
	return len(text)
}

// PreparedNeeds are needs that were compiled with the pod, as far as possible: a type of
// package plugin.
type PreparedNeeds interface{ IsPrepared() }

// IsZero reports whether the plugin does not apply to the pod.
func (n Need) IsZero() bool { return n == Need{} }

// String returns the canonical text, for reports and tests.
func (n Need) String() string {
	if n.IsZero() {
		return ""
	}
	return n.handle.Value()
}

// Normalization defines how a plugin's raw scores are scaled to 0..MaxScore over all
// feasible nodes.
type Normalization uint8

// The normalizations. m is the largest raw score. Largest computes ⌊100·raw/m⌋, and
// LargestReversed computes 100 − ⌊100·raw/m⌋. If m is 0, Largest does not change the
// scores and LargestReversed gives every node 100.
const (
	// AsIs does not change the scores, which must be in range already.
	AsIs Normalization = iota
	Largest
	LargestReversed
)
