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

// AppendQuote is strconv.AppendQuote for long texts: strconv makes room for the quoted string and
// no more, so a text of many strings would be copied once for each of them.
func AppendQuote(text []byte, s string) []byte {
	return strconv.AppendQuote(slices.Grow(text, len(s)+2), s)
}
