package compare

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/parity/internal/cases"
	"github.com/berth-scheduler/berth/parity/internal/upstream"
)

// TestTextsOfDevices checks that the shapes about devices cover every text of
// DynamicResources that needs no sequence of pods.
func TestTextsOfDevices(t *testing.T) {
	wanted := map[string]bool{}
	for _, text := range []string{
		"cannot allocate all claims", "resourceclaim not available on the node", "invalid resource pools were encountered", "deallocation of ResourceClaim completed",
		"could not find ResourceClaim", "is being deleted", "was not created for Pod", "ResourceClaim not created yet", "none of the supported fields are set",
		"device class no-class does not exist", "unknown request type", "unsupported request type", "CEL runtime error", "CEL compile error",
		"is currently being updated", "is currently invalid", "empty constraint",
	} {
		wanted[text] = true
	}
	for seed := uint64(1); seed <= 12 && len(wanted) > 0; seed++ {
		for _, shape := range cases.DeviceShapes() {
			if shape.Name == "devices-crowd" {
				continue // no text of its own
			}
			for _, text := range textsOf(t, shape.Draw(seed)) {
				for want := range wanted {
					if strings.Contains(text, want) {
						delete(wanted, want)
					}
				}
			}
		}
	}
	for want := range wanted {
		t.Errorf("kube-scheduler never says %q", want)
	}
}

func textsOf(t *testing.T, tc cases.Case) (texts []string) {
	t.Helper()
	theirs, err := InProcess().load(tc)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	for _, p := range tc.Pods {
		if p.Spec.NodeName != "" {
			continue
		}
		verdict, err := theirs.Judge(p)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, verdict.Message, verdict.Gated)
		if verdict.Err != nil && !errors.Is(verdict.Err, upstream.ErrNoNodes) {
			texts = append(texts, verdict.Err.Error())
		}
	}
	return texts
}

// TestWithoutNames checks that errors are compared without the names of devices and pools
// only.
func TestWithoutNames(t *testing.T) {
	for text, want := range map[string]string{
		"class c: selector #0 on device drv/pool/dev: CEL runtime error: no such key: x":          "class c: selector #0 on device …: CEL runtime error: no such key: x",
		"claim ns/c, request r: asks for all devices, but resource pool a/b is currently invalid": "claim ns/c, request r: asks for all devices, but resource pool … is currently invalid",
		"Insufficient cpu": "Insufficient cpu",
	} {
		if got := withoutNames(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
