// Package spelling finds out what somebody may have meant to write.
package spelling

// wordMax is how long a word is at most that is compared letter by letter, in bytes.
const wordMax = 512

// Distance is how many bytes must be added, dropped or replaced to make one word of the other (Levenshtein 1965). Words longer than any
// name are far from everything.
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
