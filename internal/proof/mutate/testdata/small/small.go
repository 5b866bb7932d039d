// Package small is what the tests of mutate put faults into.
package small

// Most is the largest result of Bounded.
const Most = 10

// Bounded returns n, at most Most.
func Bounded(n int) int {
	if n > Most {
		return Most
	}
	return n
}

// Counted counts the positive numbers on a channel until it is closed.
func Counted(numbers <-chan int) (count int) {
	for n := range numbers {
		if n > 0 {
			count++
		}
	}
	return count
}
