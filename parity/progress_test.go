package main

import (
	"bytes"
	"testing"
)

// TestProgress checks the output without a terminal: a line only when one is due.
func TestProgress(t *testing.T) {
	var text bytes.Buffer
	p := newProgress(&text, 3)
	p.done()
	p.show("early")
	p.every = 0
	p.show("seq-mixed, seed 1: 20 of 40 pods created, 17 decisions compared")
	p.done()
	p.clear()
	want := "comparing: 1 of 3 seeds done; seq-mixed, seed 1: 20 of 40 pods created, 17 decisions compared\ncomparing: 2 of 3 seeds done\n"
	if text.String() != want {
		t.Errorf("got %q, want %q", text.String(), want)
	}
}
