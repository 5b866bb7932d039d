package manifest

import (
	"fmt"
	"strings"
	"testing"
)

// pieces describes the documents of a text, one per line: its line, whether it is YAML,
// and its text; then its elements, each with its line and place.
func pieces(text string) string {
	var b strings.Builder
	docs, _ := documents("F", []byte(text))
	for _, d := range docs {
		fmt.Fprintf(&b, "%d %t %q\n", d.whole.line, d.whole.yaml, d.whole.text)
		for _, u := range d.items {
			fmt.Fprintf(&b, "  %d %t %s %d %s %q\n", u.line, u.yaml, u.place, u.dash, u.list, u.text)
		}
		if d.items != nil && len(d.items) == 0 {
			b.WriteString("  none\n")
		}
	}
	return b.String()
}

func TestDocuments(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", ""}, {"\ufeff", ""}, {"# c\n\n%YAML 1.1\n---\n  \n---\n# d", ""},
		{"a: 1", "1 true \"a: 1\"\n"},
		{"\ufeffa: 1\n", "1 true \"a: 1\\n\"\n"},
		{"a: 1\n---\nb: 2\n", "1 true \"a: 1\\n\"\n3 true \"b: 2\\n\"\n"},
		{"---\na: 1\n---  \nb: 2\n---\r\nc: 3\n", "2 true \"a: 1\\n\"\n4 true \"b: 2\\n\"\n6 true \"c: 3\\n\"\n"},
		{"--- a: 1\n--- # c\nb: 2\n", "1 true \" a: 1\\n\"\n2 true \" # c\\nb: 2\\n\"\n"},
		{"a: 1\n...\nb: 2\n---\tc: 3\n", "1 true \"a: 1\\n\"\n3 true \"b: 2\\n\"\n4 true \"\\tc: 3\\n\"\n"},
		{"a: 1\n---", "1 true \"a: 1\\n\"\n"},
		{"a: |\n---x\n", "1 true \"a: |\\n---x\\n\"\n"},
		{"a: |\n --- \n", "1 true \"a: |\\n --- \\n\"\n"},
		{"....\na: 1\n", "1 true \"....\\na: 1\\n\"\n"},
		{"{a: 1}\n", "1 true \"{a: 1}\\n\"\n"},
		{" {\"a\": 1}\n", "1 false \"{\\\"a\\\": 1}\"\n"},
		{"{}\n\n{ \"a\":\n1}{\"b\": 2}", "1 false \"{}\"\n3 false \"{ \\\"a\\\":\\n1}\"\n4 false \"{\\\"b\\\": 2}\"\n"},
		{"{\n", "1 false \"{\\n\"\n"},
		{"---\n{\"a\": 1\n", "2 false \"{\\\"a\\\": 1\\n\"\n"},
		{"[1]\n", "1 true \"[1]\\n\"\n"},

		// Lists.
		{"kind: List\napiVersion: v1\nitems:\n- a: 1\n  b: 2\n- c: 3\n", "1 true \"kind: List\\napiVersion: v1\\nitems:\\n- a: 1\\n  b: 2\\n- c: 3\\n\"\n" +
			"  4 true items[0] 0 /v1, Kind=List \"- a: 1\\n  b: 2\\n\"\n  6 true items[1] 0 /v1, Kind=List \"- c: 3\\n\"\n"},
		{"---\nitems:\n# d\n\n  - a: 1\n\n  # c\n  -\n    b: 2\nkind: NodeList\n", "2 true \"items:\\n# d\\n\\n  - a: 1\\n\\n  # c\\n  -\\n    b: 2\\nkind: NodeList\\n\"\n" +
			"  5 true items[0] 2 /, Kind=NodeList \"  - a: 1\\n\\n  # c\\n\"\n  8 true items[1] 2 /, Kind=NodeList \"  -\\n    b: 2\\n\"\n"},
		{"kind: List\nitems:\n- a: 1\nx: y\nz: w\n", "1 true \"kind: List\\nitems:\\n- a: 1\\nx: y\\nz: w\\n\"\n  3 true items[0] 0 /, Kind=List \"- a: 1\\n\"\n"},
		{"kind: List\nitems:  \r\n- a: 1\r\n", "1 true \"kind: List\\nitems:  \\r\\n- a: 1\\r\\n\"\n  3 true items[0] 0 /, Kind=List \"- a: 1\\r\\n\"\n"},
		{"kind: List\nitems:\n- - a\n  - b\n-\n", "1 true \"kind: List\\nitems:\\n- - a\\n  - b\\n-\\n\"\n  3 true items[0] 0 /, Kind=List \"- - a\\n  - b\\n\"\n  5 true items[1] 0 /, Kind=List \"-\\n\"\n"},
		// These are decoded as a whole.
		{"kind: List\nitems:\n- \ra: 1\n", "1 true \"kind: List\\nitems:\\n- \\ra: 1\\n\"\n"},
		{"kind: List\nitems:\n- \u0085a: 1\n", "1 true \"kind: List\\nitems:\\n- \\u0085a: 1\\n\"\n"},
		{"kind: List\nitems:\n- \u2028a: 1\n", "1 true \"kind: List\\nitems:\\n- \\u2028a: 1\\n\"\n"},
		{"kind: List\nitems:\n- \u2029a: 1\n", "1 true \"kind: List\\nitems:\\n- \\u2029a: 1\\n\"\n"},
		{"kind: Lists\nitems:\n- a: 1\n", "1 true \"kind: Lists\\nitems:\\n- a: 1\\n\"\n"},
		{"kind: List\nitems: []\n", "1 true \"kind: List\\nitems: []\\n\"\n"},
		{"kind: List\nitems:\n", "1 true \"kind: List\\nitems:\\n\"\n"},
		{"kind: List\nitems:\n  a: 1\n", "1 true \"kind: List\\nitems:\\n  a: 1\\n\"\n"},
		{"kind: List\nitems:\n- a: 1\nitems:\n- b: 2\n", "1 true \"kind: List\\nitems:\\n- a: 1\\nitems:\\n- b: 2\\n\"\n"},
		{"kind: List\nitems:\n  - a: 1\n - b: 2\n", "1 true \"kind: List\\nitems:\\n  - a: 1\\n - b: 2\\n\"\n"},
		{"kind: List\n  items:\n- a: 1\n", "1 true \"kind: List\\n  items:\\n- a: 1\\n\"\n"},
		{"kind: List\nitems:\n-a: 1\n", "1 true \"kind: List\\nitems:\\n-a: 1\\n\"\n"},
		{"kind: List\nitems:\n- a: 1\nb: [\n", "1 true \"kind: List\\nitems:\\n- a: 1\\nb: [\\n\"\n"},

		{"{\"kind\": \"List\", \"apiVersion\": \"v1\", \"items\": [{\"a\": 1},\n\n {\"b\": [2]} ], \"x\": 1}", "1 false \"{\\\"kind\\\": \\\"List\\\", \\\"apiVersion\\\": \\\"v1\\\", \\\"items\\\": [{\\\"a\\\": 1},\\n\\n {\\\"b\\\": [2]} ], \\\"x\\\": 1}\"\n" +
			"  1 false items[0] -1 /v1, Kind=List \"{\\\"a\\\": 1}\"\n  3 false items[1] -1 /v1, Kind=List \"{\\\"b\\\": [2]}\"\n"},
		{"{\"kind\": \"List\",\n\n\"items\":\n[ {\"a\": 1}, 2,\n3]}", "1 false \"{\\\"kind\\\": \\\"List\\\",\\n\\n\\\"items\\\":\\n[ {\\\"a\\\": 1}, 2,\\n3]}\"\n" +
			"  4 false items[0] -1 /, Kind=List \"{\\\"a\\\": 1}\"\n  4 false items[1] -1 /, Kind=List \"2\"\n  5 false items[2] -1 /, Kind=List \"3\"\n"},
		{"{\"items\": [ ], \"kind\": \"NodeList\"}", "1 false \"{\\\"items\\\": [ ], \\\"kind\\\": \\\"NodeList\\\"}\"\n  none\n"},
		{"{\"items\": [1], \"kind\": \"Node\"}", "1 false \"{\\\"items\\\": [1], \\\"kind\\\": \\\"Node\\\"}\"\n"},
		{"{\"items\": [1], \"kind\": [\"List\"]}", "1 false \"{\\\"items\\\": [1], \\\"kind\\\": [\\\"List\\\"]}\"\n"},
		{"{\"items\": [1], \"items\": [2], \"kind\": \"List\"}", "1 false \"{\\\"items\\\": [1], \\\"items\\\": [2], \\\"kind\\\": \\\"List\\\"}\"\n"},
		{"{\"items\": null, \"kind\": \"List\"}", "1 false \"{\\\"items\\\": null, \\\"kind\\\": \\\"List\\\"}\"\n"},
		{"{\"items\": [1 2], \"kind\": \"List\"}", "1 false \"{\\\"items\\\": [1 2], \\\"kind\\\": \\\"List\\\"}\"\n"},
	} {
		if got := pieces(test.text); got != test.want {
			t.Errorf("%q becomes\n%swant\n%s", test.text, got, test.want)
		}
	}
}

// heads are texts with the scanner's result for the outermost level, and the length of
// the object.
var heads = []struct{ text, want string }{
	{"{}", `"" "" -1 false false 2`},
	{" { }x", `"" "" -1 false false 4`},
	{`{"kind":"A","apiVersion":"b/v1","x":{"kind":"C"},"y":["kind"]} `, `"A" "b/v1" -1 false false 62`},
	{`{ "kind" : "A" , "items" : [ 1 , [ ] , "]" ] }`, `"A" "" 27 false false 46`},
	{"{\"a\":\"x\\\"}\"}", `"" "" -1 false false 12`},
	{"{\"a\":\"x\\\\\"}", `"" "" -1 false false 11`},
	{"{\"a\":\"x\\\\\\\"\"}", `"" "" -1 false false 13`},
	{"{\"a\":\"\\\"\"}", `"" "" -1 false false 10`},
	{`{"kind":1,"apiVersion":null}`, `"" "" -1 false false 28`},
	{`{"items":{}}`, `"" "" -1 true false 12`},
	{`{"items":null}`, `"" "" -1 false false 14`},
	{`{"items":[],"items":[]}`, `"" "" 20 true false 23`},
	{`{"items":[],"items":null}`, `"" "" 9 true false 25`},
	{"{\"a\":true,\"b\":-1.5e3,\"c\":{\"d\":[{}]}}", `"" "" -1 false false 36`},
	{`{"a":1e100}`, `"" "" -1 false true 11`},
	{`{"a":"1e100"}`, `"" "" -1 false true 13`},
	{`{"a":["9E+100",2]}`, `"" "" -1 false true 18`},
	{`{"a":{"1e-100":2}}`, `"" "" -1 false true 18`},
	{`{"a":1e99}`, `"" "" -1 false false 10`},
	{`{"a":1e0099}`, `"" "" -1 false false 12`},
	{`{"a":"1e100x"}`, `"" "" -1 false false 14`},
	{`{"a":"x1e100"}`, `"" "" -1 false false 14`},
	{`{"a":"1x1e100"}`, `"" "" -1 false false 15`},
	{`{"a":"1~e100"}`, `"" "" -1 false false 14`},
	{`{"a":"1e"}`, `"" "" -1 false false 10`},
	{`{"a":"11111111"}`, `"" "" -1 false false 16`},
	{`{"a":"+.1e+123"}`, `"" "" -1 false true 16`},
	{`{"a":"-9e900"}`, `"" "" -1 false true 14`},
	{`{"a":"1e12300"}`, `"" "" -1 false true 15`},
	{"{\"a\":1e100\t,\"b\":2}", `"" "" -1 false true 18`},

	{"", "not JSON"}, {"[", "not JSON"}, {"{", "not JSON"}, {`{"a"`, "not JSON"}, {`{"a":`, "not JSON"}, {`{"a":1`, "not JSON"}, {`{"a" 1}`, "not JSON"}, {`{a:1}`, "not JSON"},
	{`{"a":1,}`, "not JSON"}, {`{"a":1 "b":2}`, "not JSON"}, {`{"a`, "not JSON"}, {`{"a":"b`, "not JSON"}, {`{"a":[1`, "not JSON"}, {`{"a":["b`, "not JSON"}, {`{"a":1]`, "not JSON"},
}

func TestHead(t *testing.T) {
	for _, test := range heads {
		s := scanner{text: []byte(test.text)}
		h, err := s.headOf()
		got := fmt.Sprintf("%q %q %d %t %t %d", h.kind, h.apiVersion, h.items, h.oddItems, h.enormous, s.at)
		if err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.text, got, test.want)
		}
	}
}

func TestElements(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"[]", "end 2"}, {"[ ] ", "end 3"}, {"[1]", "1:1 end 3"}, {"[ 1 , \"a,]\" ,[2,3] , {\"b\":4},null]x", "2:1 6:\"a,]\" 13:[2,3] 21:{\"b\":4} 29:null end 34"},
		{"[1", "1:1 not JSON"}, {"[", "not JSON"}, {"[1,", "1:1 not JSON"}, {"[1 2]", "1:1 not JSON"}, {"[\"a]", "not JSON"}, {"[1}", "1:1 not JSON"},
	} {
		s := scanner{text: []byte(test.text)}
		got := ""
		err := s.elements(func(at int, text []byte) { got += fmt.Sprintf("%d:%s ", at, text) })
		if err != nil {
			got += err.Error()
		} else {
			got += fmt.Sprint("end ", s.at)
		}
		if got != test.want {
			t.Errorf("%s: %s, want %s", test.text, got, test.want)
		}
	}
}

// A number with an enormous exponent in one value of a file does not affect the next
// value.
func TestEnormousIsOfOneValue(t *testing.T) {
	got := problems(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"a","annotations":{"x":"1e100000"}}}
{"apiVersion":"v1","kind":"Node","metadata":{"name":"b"},"status":{"capacity":{"cpu":"1e100000"}}}
{"apiVersion":"v1","kind":"Node","metadata":{"name":"c"},"status":{"capacity":{"cpu":-1}}}`)
	want := "status.capacity[cpu]: 1e100000 has too large an exponent; write a number with an optional suffix, as in 500m, 2 or 1.5Gi\nstatus.capacity[cpu]: -1 is negative; give zero or more"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}
