package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// node returns a node with an annotation for taints.
func node(name, taints string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	if taints != "" {
		n.Annotations = map[string]string{"d.example/taint": taints}
	}
	return n
}

// described returns the slices of a pool as "gpu-0 gpu-1[key=value:Effect] | gpu-2".
func described(pool resourceslice.Pool) string {
	var of []string
	for _, slice := range pool.Slices {
		var names []string
		for _, device := range slice.Devices {
			text := device.Name
			for _, taint := range device.Taints {
				text += fmt.Sprintf("[%s=%s:%s]", taint.Key, taint.Value, taint.Effect)
			}
			names = append(names, text)
		}
		of = append(of, strings.Join(names, " "))
	}
	return strings.Join(of, " | ")
}

func TestEachNodeHasAPool(t *testing.T) {
	o := testOptions(t, "--devices 2")
	pools, wrong := o.pools([]*v1.Node{node("b", ""), node("a", "gpu-1=broken:NoSchedule"), node("c", "gpu-2=broken:NoSchedule")})
	if len(wrong) != 1 || !strings.Contains(wrong[0].Error(), `node c, annotation d.example/taint="gpu-2=broken:NoSchedule": there is no device "gpu-2" among the 2 of a pool`) {
		t.Errorf("wrong: %v", wrong)
	}
	for name, want := range map[string]string{"a": "gpu-0 gpu-1[broken=:NoSchedule]", "b": "gpu-0 gpu-1", "c": "gpu-0 gpu-1"} {
		w := pools[name]
		if got := described(w.pool); got != want || w.uid() != types.UID("uid-"+name) || w.pool.AllNodes || w.pool.NodeSelector != nil {
			t.Errorf("pool %s of %s: %s, want %s", name, w.uid(), got, want)
		}
	}
	if len(pools) != 3 {
		t.Errorf("pools: %v", slices.Sorted(maps.Keys(pools)))
	}
}

func TestSharedPool(t *testing.T) {
	o := testOptions(t, "--devices 3 --shared-pool rack --node-selector gpu=yes,!old,zone!=c")
	nodes := []*v1.Node{node("b", "gpu-0=hot:None,gpu-1=x:NoExecute"), node("a", "*=x:NoExecute")}
	pools, wrong := o.pools(nodes)
	w := pools["rack"]
	if len(wrong) > 0 || len(pools) != 1 || w == nil || w.uid() != "" {
		t.Fatalf("pools %v, wrong %v", pools, wrong)
	}
	if got, want := described(w.pool), "gpu-0[hot=:None][x=:NoExecute] gpu-1[x=:NoExecute] gpu-2[x=:NoExecute]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var terms []string
	for _, e := range w.pool.NodeSelector.NodeSelectorTerms[0].MatchExpressions {
		terms = append(terms, fmt.Sprint(e.Key, " ", e.Operator, e.Values))
	}
	slices.Sort(terms)
	if want := []string{"gpu In[yes]", "old DoesNotExist[]", "zone NotIn[c]"}; !slices.Equal(terms, want) {
		t.Errorf("node selector %q, want %q", terms, want)
	}
	slices.Reverse(nodes)
	if again, _ := o.pools(nodes); again["rack"].taints != w.taints {
		t.Errorf("the order of the nodes makes a difference: %q, %q", again["rack"].taints, w.taints)
	}
	pools, _ = testOptions(t, "--shared-pool rack").pools(nil)
	if p := pools["rack"].pool; !p.AllNodes || p.NodeSelector != nil {
		t.Errorf("without a selector: %+v", p)
	}
}

func TestTaints(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "",
		"gpu-3=broken:NoSchedule":               "gpu-3[broken=:NoSchedule]",
		"gpu-0=a.example/k=v:NoExecute":         "gpu-0[a.example/k=v:NoExecute]",
		"gpu-0=a:NoSchedule, gpu-0=b:None":      "gpu-0[a=:NoSchedule][b=:None]",
		"gpu-0=a:NoSchedule,gpu-0=a:NoSchedule": "gpu-0[a=:NoSchedule]",
		"gpu-4=broken:NoSchedule":               `there is no device "gpu-4" among the 4`,
		"gpu-00=broken:NoSchedule":              `there is no device "gpu-00"`,
		"gpu-0":                                 `the taint "" must be KEY:EFFECT or KEY=VALUE:EFFECT`,
		"gpu-0=broken":                          `effect "" is neither`,
		"gpu-0=broken:PreferNoSchedule":         `effect "PreferNoSchedule" is neither`,
		"gpu-0=a=b=c:NoSchedule":                "value: ",
	} {
		o := testOptions(t, "--devices 4")
		taints, errs := o.taints(node("n", text))
		got := ""
		for _, err := range errs {
			got += err.Error()
		}
		for field := range strings.FieldsSeq(described(o.pool(taints))) {
			if strings.Contains(field, "[") {
				got += field
			}
		}
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// TestDevicesFillSlices checks that a taint moves no device to another slice.
func TestDevicesFillSlices(t *testing.T) {
	for devices, want := range map[string][]int{"0": {0}, "1": {1}, "64": {64}, "65": {64, 1}, "130": {64, 64, 2}} {
		o := testOptions(t, "--devices "+devices)
		for _, taints := range []map[string][]resourcev1.DeviceTaint{nil, {all: {{Key: "k"}}}} {
			var got []int
			for _, slice := range o.pool(taints).Slices {
				got = append(got, len(slice.Devices))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s devices: slices of %d, want %d", devices, got, want)
			}
		}
	}
}

func TestDevice(t *testing.T) {
	o := testOptions(t, "--devices 4 --model m1 --memory 3Gi")
	for i, numa := range []int64{0, 0, 1, 1} {
		d := o.device(i, nil)
		memory := d.Capacity["memory"].Value
		if d.Name != fmt.Sprint("gpu-", i) || *d.Attributes["model"].StringValue != "m1" || *d.Attributes["index"].IntValue != int64(i) || *d.Attributes["numa"].IntValue != numa ||
			memory.Value() != 3<<30 || d.BindingConditions != nil || d.BindsToNode != nil {
			t.Errorf("device %d: %+v", i, d)
		}
	}
	d := testOptions(t, "--binding-conditions").device(0, nil)
	if !slices.Equal(d.BindingConditions, []string{"d.example/attached"}) || !slices.Equal(d.BindingFailureConditions, []string{"d.example/attach-failed"}) || !*d.BindsToNode {
		t.Errorf("with binding conditions: %+v", d)
	}
}

func TestObsoleteSlices(t *testing.T) {
	o := testOptions(t, "--devices 1")
	pools, _ := o.pools([]*v1.Node{node("a", "")})
	shared, _ := testOptions(t, "--devices 1 --shared-pool rack").pools(nil)
	for _, test := range []struct {
		pools           map[string]*wanted
		pool, node, uid string
		want            bool
	}{
		{pools, "a", "a", "uid-a", false},
		{pools, "a", "a", "uid of an earlier a", true},
		{pools, "a", "a", "", true},
		{pools, "b", "b", "uid-b", true},
		{pools, "a", "", "", true},
		{shared, "rack", "", "", false},
		{shared, "rack", "rack", "uid-rack", true},
		{shared, "other", "", "", true},
	} {
		slice := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{Pool: resourcev1.ResourcePool{Name: test.pool}}}
		if test.node != "" {
			slice.Spec.NodeName = &test.node
		}
		if test.uid != "" {
			slice.OwnerReferences = []metav1.OwnerReference{{Kind: "Node", UID: types.UID(test.uid), Controller: new(true)}}
		}
		if got := obsolete(slice, test.pools); got != test.want {
			t.Errorf("pool %q of node %q %q: %v", test.pool, test.node, test.uid, got)
		}
	}
}
