package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
)

// TestOutage logs a line after ten seconds, one each minute, and one at the end. A short
// outage has no line.
func TestOutage(t *testing.T) {
	now := time.Unix(0, 0)
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, fmt.Sprintf("%d: %s", now.Unix(), args)) }, funcr.Options{})
	o := outage{log: log, now: func() time.Time { return now }}
	for second := range 200 {
		now = time.Unix(int64(second), 0)
		if second%40 < 5 || second >= 50 && second < 185 {
			o.failed(now, errors.New("refused"))
		} else {
			o.answered()
		}
	}
	want := []string{
		`60: "msg"="The API server does not answer, retrying" "error"="refused" "for"="10s"`,
		`120: "msg"="The API server does not answer, retrying" "error"="refused" "for"="1m10s"`,
		`180: "msg"="The API server does not answer, retrying" "error"="refused" "for"="2m10s"`,
		`185: "level"=0 "msg"="The API server answers again" "after"="2m15s"`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}
