package manifest

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// blockTakes are texts that block converts itself, each as sigs.k8s.io/yaml does.
var blockTakes = []string{
	"a: b\n", "a: b", "# c\na: b\n", "a: b\n# c\n", "\n\na: b\n\n", "a:\n", "a:  b\n", "a: b  \n", "a: b \n", "a: b   \n", "a b: c\n", "a:b: c\n", "a#b: c\n", "a: b#c\n", "a: b:c\n", "a: ~b\n",
	"\"a\": b\n", "\"a\":\n", "\"a\":   b\n", "/x: y\n", "_x: y\n", ".: {}\n", "z: 1\nZ: 2\nA: 3\n", "falsey: 1\n", "nope: 1\n", strings.Repeat("k", 128) + ": b\n",
	"a: b\nc: d\n", "a:\n b: 1\n c: 2\n", "a:\n  b:\n    c: d\n  e: f\ng: h\n", "a:\n  b:\n    c:\nd: e\n",
	"- a\n", "- a\n- b\n", "-\n- b\n", "-   a\n", "- -\n", "- - a\n  - b\n- c\n", "-  -   a\n", "- a: b\n  c: d\n- e: f\n", "- a:\n  b: c\n", "- - a: b\n    c: d\n", "a:\n- b\n- c\n", "a:\n- b\nc: d\n",
	"a:\n  - b\n  - c\nd: e\n", "a:\n- b:\n  - c\n  d: e\nf: g\n", "a:\n-\nb: c\n", "a:\n  -\n  - b\n", "  a: b\n", "  - a\n",
	"a: yes\nb: NO\nc: ~\nd: null\ne: True\nf: off\ng: y\n", "a: 0\nb: 9\nc: -1\nd: -x\ne: +1\nf: .5\ng: $x\nh: (x)\ni: /x\nj: _x\n",
	"a: 1_000\nb: 0x1F\nc: 017\nd: 1e3\ne: 2024-01-01\nf: 12:30\ng: 1.10\nh: 1Gi\ni: 1.2.3\n",
	"a: {}\nb: []\n", "a: \"b\"\n", "a: \"\"\n", "a: \"x: y # z\"\n", "a: \"b\\\"c\"\n", "a: \"b\\nc\\td\\\\e\"\n", "a: 'b'\n", "a: ''\n", "a: 'b\"c\\d: e # f'\n",
	"a: |\n  b\n", "a: |\n  b\n  c\n\nd: e\n", "a: |-\n  b\n\n", "a: |-\n  b~\n", "a: |\n  b~\n\n", "a: |+\n  b\n\n\n", "a: |\n  b\n    c\n\n  d\n", "a: |\n  b\n   \n  c\n", "a: |\n  b\n  \n  c\n", "a:\n  b: |\n    x\n  c: d\n",
	"- |\n  x\n- y\n", "- a: |\n    x\n  b: c\n", "a: |\n  \"b\" \\ 'c'\n", "a: |\n b\n",
}

// blockRefuses are texts that block leaves to sigs.k8s.io/yaml: their meaning is
// different there, or an error, or depends on more than one line.
var blockRefuses = []string{
	"", "# c\n", "a: \x7f\n", "a: b\x7f\n", "a: é\n", "a:\tb\n", "a: b\r\n", "a: \x1f\n",
	"a\n", "\"a\"\n", "a:b\n", "a : b\n", "\"a\" : b\n", "\"a\":b\n", "\"a: b\n", "\"a\\\\\": b\n", "a: b: c\n", "a: b:\n", "a: b # c\n", "a #b: c\n", "a:: b\n", ": b\n", strings.Repeat("k", 129) + ": b\n",
	"1: a\n", "-1: a\n", "~: a\n", "yes: a\n", "False: a\n", "n: a\n", "ON: a\n", "@: a\n", "[: a\n", "{: a\n", "?: a\n", "a: |\n  b",
	"a: b\n c: d\n", "a: b\n- c\n", "- a\n  - b\n", "- a\nb: c\n", "  a: b\nc: d\n", " - a\n- b\n", "a:\n  b: c\n d: e\n", "- # c\n", "a:\n  - b\n - c\n", "a:\n    - b\n  - c\n", "- a: b\n c: d\n",
	"a: -\n", "a: - b\n", "a: &b\n", "a: *b\n", "a: !x y\n", "a: %x\n", "a: @x\n", "a: >\n  b\n", "a: ? b\n", "a: , b\n", "a: {b: c}\n", "a: [b]\n", "a: {\n}\n", "a: :b\n", "a: #b\n", "a: `b\n", "a: .inf\n",
	"a: \"b\n", "a: \"b\" c\n", "a: \"\\x41\"\n", "a: \"b\\\n", "a: \"\\/\"\n", "a: 'b\n", "a: 'b' c\n", "a: 'b''c'\n", "a: '\n",
	"a: |2\n  b\n", "a: |\n\n  b\n", "a: |\n\nc: d\n", "a: |\n    b\n  c\n", "a: |\nb: c\n", "a: | # c\n  b\n", "- |\n   b\n  c\n", "--- a\n", "a: b\n---\nc: d\n", "...\n", "a:\n  b\n",
}

func TestBlock(t *testing.T) {
	for _, text := range blockTakes {
		var b block
		fast, ok := b.json([]byte(text), -1)
		if !ok {
			t.Errorf("%q is refused", text)
			continue
		}
		slow, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Errorf("%q is no YAML: %v", text, err)
		} else if !equalJSON(t, fast, slow) {
			t.Errorf("%q becomes\n%s\nwant\n%s", text, fast, slow)
		}
	}
	for _, text := range blockRefuses {
		var b block
		if fast, ok := b.json([]byte(text), -1); ok {
			t.Errorf("%q becomes %s", text, fast)
		}
	}
}

// An element of a list is read with its dash as a space, in any column, and one block
// reads several texts in turn.
func TestBlockOfElement(t *testing.T) {
	var b block
	for _, test := range []struct {
		text string
		dash int
		want string
	}{
		{"- a: b\n  c: d\n", 0, `{"a":"b","c":"d"}`},
		{"  - a: b\n    c:\n    - d\n", 2, `{"a":"b","c":["d"]}`},
		{"-\n  a: b\n", 0, `{"a":"b"}`},
		{"- # c\n  a: b\n", 0, `{"a":"b"}`},
		{"- # c\n\n  a: b\n", 0, `{"a":"b"}`},
		{"  - # c\n\n    a: b\n", 2, `{"a":"b"}`},
		{"  -\n\n    a: b\n", 2, `{"a":"b"}`},
		{"-   a: b\n    c: d\n# e\n", 0, `{"a":"b","c":"d"}`},
		{"- - a\n", 0, `["a"]`},
		{"- a: b\nc: d\n", 0, ""},
		{"-\n", 0, ""},
		{"a: b\n", -1, `{"a":"b"}`},
	} {
		js, ok := b.json([]byte(test.text), test.dash)
		if ok != (test.want != "") || ok && string(js) != test.want {
			t.Errorf("%q: %s, %t, want %s", test.text, js, ok, test.want)
		}
	}
}

// The JSON of a plain scalar is cached for later texts, up to a number of scalars.
func TestBlockRemembersScalars(t *testing.T) {
	var b block
	if js, ok := b.json([]byte("a: 10\nb: 11\nc: 10\nd: word\n"), -1); !ok || string(js) != `{"a":10,"b":11,"c":10,"d":"word"}` || len(b.plain) != 2 {
		t.Errorf("%s; it keeps %v", js, b.plain)
	}
	if js, ok := b.json([]byte("a: ~\nb: 0x1F\nc: yes\nd: ~\n"), -1); !ok || string(js) != `{"a":null,"b":31,"c":true,"d":null}` || b.plain["~"] != "null" || b.plain["0x1F"] != "31" || len(b.plain) != 5 {
		t.Errorf("%s; it keeps %v", js, b.plain)
	}
	for i := len(b.plain); i < 1<<16; i++ {
		b.plain[fmt.Sprint("x", i)] = ""
	}
	b.plain["10"] = "20"
	if js, ok := b.json([]byte("a: 10\n"), -1); !ok || string(js) != `{"a":20}` || len(b.plain) != 1<<16 {
		t.Errorf("what is kept is not used: %s; it keeps %d", js, len(b.plain))
	}
	if js, ok := b.json([]byte("a: 12\n"), -1); !ok || string(js) != `{"a":12}` || len(b.plain) != 1 {
		t.Errorf("%s; it keeps %d", js, len(b.plain))
	}
}
