package main

import (
	"strings"
	"testing"
)

// TestCompletion completes gates, labels and names, the latter two from files.
func TestCompletion(t *testing.T) {
	const file = "-f ../../examples/cluster.yaml "
	for args, want := range map[string]string{
		"simulate --feature-gates GenericW":                        "GenericWorkload=\n",
		"simulate --feature-gates GenericWorkload=":                "GenericWorkload=true\nGenericWorkload=false\n",
		"simulate --feature-gates GenericWorkload=true,GenericW":   "",
		"simulate --feature-gates GenericWorkload=true,CompositeP": "GenericWorkload=true,CompositePodGroup=\n",
		"explain " + file + "shop/train":                           "shop/training\nshop/training-untolerant\n",
		"explain " + file + "--pod shop/web":                       "shop/web-2\n",
		"drain " + file + "web-":                                   "web-a1\nweb-b1\n",
		"drain " + file + "web-a1 web-":                            "web-b1\n",
		"top nodes " + file + "-l topology.kubernetes.io/zone=":    "topology.kubernetes.io/zone=a\ntopology.kubernetes.io/zone=b\n",
		"top nodes " + file + "-l a=b,topology.kubernetes.io/z":    "a=b,topology.kubernetes.io/zone=\n",
		"top ": "nodes\npools\nzones\n",
	} {
		words := append([]string{"__complete"}, strings.Fields(args)...)
		if strings.HasSuffix(args, " ") {
			words = append(words, "")
		}
		code, got := transcript(t, words...)
		if out, _, _ := strings.Cut(got, ":"); code != 0 || out != want {
			t.Errorf("%s: exit code %d, %q, want %q", args, code, out, want)
		}
	}
}
