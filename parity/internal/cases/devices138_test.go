package cases_test

import (
	"encoding/json"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/parity/internal/cases"
)

// TestSameDevices checks that drawn cases have all inputs that 1.38 treats otherwise, and
// that the copies have none.
func TestSameDevices(t *testing.T) {
	drawn, same := map[string]int{}, map[string]int{}
	for _, s := range cases.DeviceShapes() {
		for seed := range uint64(5) {
			tc := s.Draw(seed)
			countChanged(&tc, drawn)
			tc = tc.SameDevices()
			countChanged(&tc, same)
		}
	}
	if len(drawn) != 2 || len(same) > 0 {
		t.Errorf("%v are drawn, %v are left", drawn, same)
	}
}

// countChanged counts the inputs of a case that 1.38 treats otherwise.
func countChanged(tc *cases.Case, to map[string]int) {
	for _, o := range tc.Devices {
		text, err := json.Marshal(o)
		if err == nil && strings.Contains(string(text), `"allocationMode":"All"`) {
			to["requests for all devices"]++
		}
		slice, ok := o.(*resourcev1.ResourceSlice)
		if !ok {
			continue
		}
		for _, d := range slice.Spec.Devices {
			for name := range d.Capacity {
				if strings.Contains(string(name), "/") {
					to["capacities with a domain"]++
				}
			}
		}
	}
}
