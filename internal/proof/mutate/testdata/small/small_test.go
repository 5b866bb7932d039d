package small

import "testing"

func TestBounded(t *testing.T) {
	for n, want := range map[int]int{3: 3, 10: 10, 11: 10} {
		if got := Bounded(n); got != want {
			t.Errorf("Bounded(%d) is %d, want %d", n, got, want)
		}
	}
}

func TestCounted(t *testing.T) {
	numbers := make(chan int, 3)
	numbers <- 5
	numbers <- 6
	numbers <- -5
	close(numbers)
	if got := Counted(numbers); got != 2 {
		t.Errorf("%d, want 2", got)
	}
}
