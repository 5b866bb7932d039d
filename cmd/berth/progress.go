package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// progress is a progress bar on a terminal. Without a terminal it writes nothing.
type progress struct {
	w     io.Writer // nil without a terminal
	erase string
	shown bool
	last  int64
}

func newProgress(w io.Writer) *progress {
	if !isTerminal(w) || os.Getenv("TERM") == "dumb" {
		return &progress{}
	}
	p := &progress{w: w, erase: "\r\x1b[K"}
	if os.Getenv("NO_COLOR") != "" {
		p.erase = "\r" + strings.Repeat(" ", 60) + "\r" // without escape sequences
	}
	return p
}

func (p *progress) reading(done, total int64) { p.show("Reading", done, total) }

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// show rewrites the line at each whole percent.
func (p *progress) show(what string, done, total int64) {
	if p.w == nil || total <= 0 {
		return
	}
	percent := 100 * done / total
	if p.shown && percent == p.last {
		return
	}
	p.shown, p.last = true, percent
	const width = 30
	full := int(percent) * width / 100
	fmt.Fprintf(p.w, "%s%-10s [%s%s] %3d%%", p.erase, what, strings.Repeat("=", full), strings.Repeat(" ", width-full), percent)
}

func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, p.erase)
		p.shown = false
	}
}
