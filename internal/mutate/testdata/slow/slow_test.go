package slow

import (
	"testing"
	"time"
)

func TestIsMore(t *testing.T) {
	time.Sleep(time.Second)
	if IsMore(1, 1) || !IsMore(2, 1) {
		t.Error("more is what is not less or equal")
	}
}
