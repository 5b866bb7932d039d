// Package spelling measures how similar two words are, for suggestions in error messages. It takes two words and gives their distance. It owns
// nothing and never chooses a suggestion.
package spelling

// wordMax is the length in bytes up to which words are compared letter by letter.
const wordMax = 512

// Distance returns how many bytes must be added, dropped or replaced to turn one word into the other (Levenshtein 1965). For words longer than
// any name it returns a distance larger than any threshold.
func Distance(a, b string) int {
	if len(a) > wordMax || len(b) > wordMax {
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
