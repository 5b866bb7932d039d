package dynamicresources

import "testing"

// TestAnswersAreBounded checks that used answers stay, that others are dropped, and that
// at most two generations are kept.
func TestAnswersAreBounded(t *testing.T) {
	m := newAnswers()
	m.max = 10
	key := func(i int) [32]byte { return [32]byte{byte(i), byte(i >> 8), 1} }
	for i := range 1000 {
		m.put(key(i), answer{rating: int32(i)})
		if a, known := m.get(key(0)); !known || a.rating != 0 {
			t.Fatalf("after %d more: what is used all the time is %v, %t", i, a, known)
		}
		if len(m.young) > m.max || len(m.old) > m.max {
			t.Fatalf("%d and %d answers are kept, at most %d each", len(m.young), len(m.old), m.max)
		}
	}
	if _, known := m.get(key(500)); known {
		t.Error("what was not used for long is known")
	}
	if a, known := m.get(key(999)); !known || a.rating != 999 {
		t.Errorf("the last answer is %v, %t", a, known)
	}
}
