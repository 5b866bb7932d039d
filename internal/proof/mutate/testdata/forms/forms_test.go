package forms

import "testing"

func TestAdd(t *testing.T) {
	s := Set[string]{}
	if first, again := s.Add("a", "b", "a"), s.Add("b"); first != 2 || again != 0 || !s["a"] {
		t.Errorf("added %d, then %d: %v", first, again, s)
	}
}

func TestSign(t *testing.T) {
	for n, want := range map[int]int{-2: -1, -1: -1, 0: 0, 1: 1, 2: 1} {
		if got := Sign(n); got != want {
			t.Errorf("Sign(%d) is %d, want %d", n, got, want)
		}
	}
}

func TestDown(t *testing.T) {
	if got := Down(3); got != 3 {
		t.Errorf("%d steps, want 3", got)
	}
}

func TestJoined(t *testing.T) {
	if joined != "a, b" {
		t.Errorf("joined %q", joined)
	}
}

func TestCount(t *testing.T) {
	if got := Count[string](5, 6); got != 3 {
		t.Errorf("%d, want 3", got)
	}
}
