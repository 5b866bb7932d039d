package model

import (
	"slices"
	"strconv"
)

// SortedCopy returns a sorted copy of texts.
func SortedCopy(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return texts
}

// AppendQuote is strconv.AppendQuote for long texts. strconv only reserves space for the
// quoted string, so a text of many strings would be copied for each string.
func AppendQuote(text []byte, s string) []byte {
	return strconv.AppendQuote(slices.Grow(text, len(s)+2), s)
}
