package dynamicresources

import "testing"

// A profile without the plugin at some extension points rejects pods that need devices.
func TestBar(t *testing.T) {
	bar := NewBar("filter", "reserve")
	w := newWorld(t)
	if got, want := bar.Run(w.View(), pod("p", "c")).Rejection, "the pod needs devices, and DynamicResources is disabled at filter, reserve"; got != want || bar.Name != "DynamicResources" || bar.Skips(pod("p", "c")) {
		t.Errorf("rejected with %q, want %q", got, want)
	}
	for name, barred := range map[string]bool{"deviceclass.resource.kubernetes.io/gpu": true, "deviceclass.resource.kubernetes.io/other": false, "example.com/gpu": false} {
		if r := bar.Run(w.View(), requesting("p", "c "+name+"=1")); r.IsZero() == barred {
			t.Errorf("a pod that requests %s: %+v", name, r)
		}
	}
	if r := bar.Run(w.View(), pod("p")); !r.IsZero() || !bar.Skips(pod("p")) {
		t.Errorf("a pod without devices is rejected: %+v", r)
	}
}
