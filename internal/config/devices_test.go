package config

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/cluster/state"
	"github.com/berth-scheduler/berth/internal/model"
)

// A profile with DynamicResources at only some points binds no pod that needs devices. A
// profile without it at any deciding point ignores devices, as kube-scheduler does.
func TestDevicesAreNotPassedOver(t *testing.T) {
	const text = "the pod needs devices, and DynamicResources is disabled at "
	pod := model.NewPod(&v1.Pod{Spec: v1.PodSpec{ResourceClaims: []v1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new(string)}}}})
	plain := model.NewPod(&v1.Pod{})
	for _, row := range []struct{ name, plugins, want string }{
		{"off", `{multiPoint: {disabled: [{name: DynamicResources}]}}`, ""},
		{"off at preFilter", `{preFilter: {disabled: [{name: DynamicResources}]}}`, text + "preFilter"},
		{"off at filter", `{filter: {disabled: [{name: DynamicResources}]}}`, text + "filter"},
		{"off at reserve and preBind", `{reserve: {disabled: [{name: DynamicResources}]}, preBind: {disabled: [{name: DynamicResources}]}}`, text + "reserve, preBind"},
		{"only reserves", `{multiPoint: {disabled: [{name: DynamicResources}]}, reserve: {enabled: [{name: DynamicResources}]}}`, text + "preFilter, filter, preBind"},
		{"only scores", `{multiPoint: {disabled: [{name: DynamicResources}]}, score: {enabled: [{name: DynamicResources}]}}`, ""},
		{"only gates", `{multiPoint: {disabled: [{name: DynamicResources}]}, preEnqueue: {enabled: [{name: DynamicResources}]}}`, text + "preFilter, filter, reserve, preBind"},
		{"off at score", `{score: {disabled: [{name: DynamicResources}]}}`, ""},
	} {
		c := mustParse(t, "profiles: [{plugins: "+row.plugins+"}]")
		got := ""
		for _, p := range c.Profiles[0].PreFilters {
			if r := p.Run(state.New().View(), pod).Rejection; strings.HasPrefix(r, text) {
				got = r
			}
			if r := p.Run(state.New().View(), plain); !r.IsZero() {
				t.Errorf("%s: a pod without devices is rejected: %+v", row.name, r)
			}
		}
		if got != row.want {
			t.Errorf("%s: rejected with %q, want %q", row.name, got, row.want)
		}
	}
}

// The kinds of devices are watched if DynamicResources is enabled, and taint rules if
// their gates are on.
func TestKindsOfDevices(t *testing.T) {
	for _, row := range []struct {
		name    string
		plugins string
		gates   map[string]bool
		claims  bool
		rules   bool
	}{
		{"default", "{}", nil, true, true},
		{"disabled", `{multiPoint: {disabled: [{name: DynamicResources}]}}`, nil, false, false},
		{"no rules", "{}", map[string]bool{"DRADeviceTaintRules": false}, true, false},
		{"no taints", "{}", map[string]bool{"DRADeviceTaintRules": false, "DRADeviceTaints": false}, true, false},
	} {
		c, err := ParseWith("f", []byte(header+"profiles: [{plugins: "+row.plugins+"}]\n"), Request{Gates: gatesWith(t, row.gates)})
		if err != nil {
			t.Fatal(err)
		}
		reads := map[model.Kind]bool{}
		for _, kind := range c.Reads() {
			reads[kind] = true
		}
		for kind, want := range map[model.Kind]bool{
			model.ResourceClaimKind: row.claims, model.ResourceSliceKind: row.claims, model.DeviceClassKind: row.claims, model.DeviceTaintRuleKind: row.rules,
		} {
			if reads[kind] != want {
				t.Errorf("%s: kind %d is read: %t", row.name, kind, reads[kind])
			}
		}
	}
}
