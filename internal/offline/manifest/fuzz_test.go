package manifest

import (
	stdjson "encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// FuzzDecode checks that Decode returns either a cluster or errors with text, whatever
// the input.
func FuzzDecode(f *testing.F) {
	f.Add(string(snapshot(1, 1)))
	f.Add(string(indented(f, snapshot(1, 1))))
	for _, c := range badInput {
		f.Add(c.text)
	}
	for _, text := range []string{simulatorExport, kaiSnapshot, nodeList + logBegins + "c of pod a/b ====\nx" + logEnds + "c of pod a/b ====\n" + podList, "Warning: x\n" + nodeList + "noise\n" + podList} {
		f.Add(text)
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

// FuzzNoise puts text between and around objects. The objects are read, unless the text
// may belong to one.
func FuzzNoise(f *testing.F) {
	f.Add("Error from server", "a: b", true)
	f.Add("\x00{\n}", "---", false)
	f.Add(logEnds, logBegins, true)
	f.Add("0", "\x00", false)
	f.Add("#", "", false)
	f.Add("#", "\"", false)
	f.Fuzz(func(t *testing.T, before, between string, logs bool) {
		if logs {
			between = logBegins + "c of pod a/b ====\n" + strings.ReplaceAll(between, logEnds, "") + logEnds + "c of pod a/b ====\n"
			before = ""
		} else if strings.Contains("\n"+before+"\n"+between, "\n"+logBegins) {
			t.Skip("a log without an end goes on to the end of the file")
		} else {
			before, between = before+"\n", between+"\n"
		}
		c, err := Decode("fuzz", []byte(before+nodeList+between+podList))
		switch {
		case err != nil && logs:
			t.Fatalf("a log of %q stops the dump: %v", between, err)
		case err == nil && logs && summary(c) != "node a, pod shop/web":
			t.Fatalf("with a log of %q: %s", between, summary(c))
		case err == nil && (len(c.Nodes) == 0 || len(c.Pods) == 0):
			t.Fatalf("%q and %q hide objects: %s, %q", before, between, summary(c), c.Warnings)
		}
	})
}

// FuzzUnpack checks that archives give files or an error, whatever their bytes.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte("PK\x03\x04"))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Fuzz(func(t *testing.T, data []byte) {
		sources, err := unpack(source{name: "a", given: "a", data: data}, 1<<20)
		if err == nil && len(sources) == 0 {
			t.Fatal("no file and no error")
		}
	})
}

// FuzzBlock compares block with sigs.k8s.io/yaml. Block may reject a text. It may also
// accept a text that the other rejects for a duplicate key.
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
