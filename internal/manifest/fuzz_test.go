package manifest

import (
	stdjson "encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// FuzzDecode checks that Decode returns either a cluster or errors with text, whatever the input.
func FuzzDecode(f *testing.F) {
	f.Add(string(snapshot(1, 1)))
	f.Add(string(indented(f, snapshot(1, 1))))
	for _, c := range badInput {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Decode("fuzz", []byte(text))
		if (c == nil) == (err == nil) {
			t.Fatalf("cluster %v, error %v", c, err)
		}
		if err != nil && len(err.Error()) < len("fuzz: ") {
			t.Fatalf("error %q says nothing", err)
		}
	})
}

// FuzzBlock compares block with sigs.k8s.io/yaml. Block may reject a text; it may also accept one that the other rejects for a duplicate key.
func FuzzBlock(f *testing.F) {
	f.Add(string(snapshot(2, 2)))
	for _, text := range []string{
		"a: 1\nb: true\nc: yes\nd: ~\ne:\nf: 0x1F\ng: 1_000\nh: 1e3\ni: 2024-01-01\nj: 12:30\n",
		"a:\n- b\n-\n- - c\n  - d\n- e: f\n  g:\n  - h\ni: j\n",
		"a: |\n  one\n    two\n\n  three\nb: |-\n  x\n\n\nc: |+\n  y\n\n",
		"a: 'x: y'\nb: \"q\\\"\\n\\t\"\nc: {}\nd: []\ne: $(X)\nf: -1\ng: --flag=a:b\n",
		"a:\n  # comment\n  b: c\n# another\nd: e\n",
		"- a: 1\n  b:\n    c: |\n      text\n- d\n",
		"a : b\n", "a: '\n", "\"a\":b: c\n", "a: - b\n", "a: b: c\n", "a: b # c\n", "a:\n b: 1\n  c: 2\n", "f:metadata:\n  .: {}\n  k:{\"type\":\"Ready\"}:\n    f:status: {}\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var b block
		fast, ok := b.json([]byte(text), -1)
		if !ok {
			return
		}
		slow, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatalf("block made %s of %q, which is refused: %v", fast, text, err)
		}
		if _, err := yaml.YAMLToJSONStrict([]byte(text)); err != nil && strings.Contains(err.Error(), "already set") {
			return
		}
		if !equalJSON(t, fast, slow) {
			t.Fatalf("block made\n%s\nsigs.k8s.io/yaml made\n%s\nof %q", fast, slow, text)
		}
	})
}

func equalJSON(t *testing.T, a, b []byte) bool {
	var x, y any
	if err := stdjson.Unmarshal(a, &x); err != nil {
		t.Fatalf("%s: %v", a, err)
	}
	if err := stdjson.Unmarshal(b, &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}

// FuzzSplit compares a list that is split with the same list as a whole.
func FuzzSplit(f *testing.F) {
	f.Add(string(snapshot(2, 2)))
	f.Add("kind: List\napiVersion: v1\nitems:\n- a: &x 1\n- b: *x\n")
	f.Add("items:\n  - a: 1\n  # c\n  -\n    b: 2\nkind: PodList\n")
	f.Add("items:\n- a: \"x\n- y\"\nkind: List\n")
	f.Fuzz(func(t *testing.T, text string) {
		whole := unit{file: "fuzz", line: 1, text: []byte(text), yaml: true, dash: -1}
		items := splitYAML(whole)
		var parts []string
		for _, item := range items {
			var y yamlReader
			js, err := y.json(item)
			if err != nil {
				return
			}
			parts = append(parts, string(js))
		}
		if items == nil {
			return
		}
		slow, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			return
		}
		var list struct{ Items stdjson.RawMessage }
		if err := stdjson.Unmarshal(slow, &list); err != nil {
			return
		}
		if together := "[" + strings.Join(parts, ",") + "]"; !equalJSON(t, []byte(together), list.Items) {
			t.Fatalf("taken apart\n%s\nin one piece\n%s\nof %q", together, list.Items, text)
		}
	})
}
