// Package spelling measures how similar two words are, for suggestions in error messages.
// It takes two words and returns their distance. It owns nothing, and never chooses a
// suggestion.
package spelling

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
