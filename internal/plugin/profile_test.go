package plugin

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
)

type text string

func (t text) AppendText(to []byte) []byte { return append(to, t...) }

// TestLongNeedsAreKnownByTheirHash: a long text is replaced by a hash, which differs for
// every other text.
func TestLongNeedsAreKnownByTheirHash(t *testing.T) {
	long := strings.Repeat("x", model.LongText)
	a, isLong := needOf(text(long))
	if !isLong || len(a.String()) > 100 {
		t.Errorf("long %t, known by %d bytes", isLong, len(a.String()))
	}
	if a != NeedOf(text(long)) {
		t.Error("equal texts have different needs")
	}
	if a == NeedOf(text(long+"x")) {
		t.Error("different texts have one need")
	}
	short := long[1:]
	if b, isLong := needOf(text(short)); isLong || b.String() != short {
		t.Error("a short text is not kept as it is")
	}
}
