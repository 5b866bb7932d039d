package lines

import "testing"

const text = `a:
  b:
  - c: 1
  - {c: 2,
     d: {x/y: 3}}
  base: &base
    e: 1
  other: *base
`

func TestLine(t *testing.T) {
	for path, want := range map[string]int{
		"a": 1, "a.b": 2, "a.b[0].c": 3, "a.b[1].c": 4, "a.b[1].d": 5, "a.b[1].d[x/y]": 5,
		"a.b[7].c": 2, "a.nope.c": 1, "nope": 0, "": 0, "a.other.e": 7, "a[": 1, "a.b[-1]": 2,
	} {
		if got := Parse([]byte(text)).Line(path); got != want {
			t.Errorf("%s: line %d, want %d", path, got, want)
		}
	}
	if got := Parse([]byte("{\"a\":\n [{\"b\": 1}]}")).Line("a[0].b"); got != 2 {
		t.Errorf("JSON: line %d, want 2", got)
	}
	for _, broken := range []string{"", "a: [", "\t", "# nothing\n"} {
		if got := Parse([]byte(broken)).Line("a"); got != 0 {
			t.Errorf("%q: line %d, want 0", broken, got)
		}
	}
}
