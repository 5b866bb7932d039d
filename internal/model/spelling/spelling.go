// Package spelling measures how similar words are, for suggestions in error messages. It
// takes words, and returns their distance or the nearest one. It owns nothing, and never
// changes a word.
package spelling

import "strings"

// maxWord limits the length of words to compare, in bytes.
const maxWord = 512

// Distance returns the number of bytes to add, drop or replace to turn one word into the
// other (Levenshtein 1965). For words longer than any name it returns a distance above
// any threshold.
func Distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return max(len(a), len(b))
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// Nearest returns the candidate that was probably meant by a word: the nearest one, the
// first of equal ones, regardless of case. It returns "" if none is near.
func Nearest(word string, candidates []string) string {
	best, least := "", len(word)/3+1
	for _, candidate := range candidates {
		d := Distance(strings.ToLower(word), strings.ToLower(candidate))
		if d < least || d == least && best == "" {
			best, least = candidate, d
		}
	}
	return best
}
