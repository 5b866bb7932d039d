package slow

import (
	"flag"
	"testing"
	"time"
)

var pause = flag.Duration("pause", time.Second, "how long the test takes")

func TestIsMore(t *testing.T) {
	time.Sleep(*pause)
	if IsMore(1, 1) || !IsMore(2, 1) {
		t.Error("more is what is not less or equal")
	}
}
