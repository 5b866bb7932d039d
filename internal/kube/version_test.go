package kube

import "testing"

// TestParseVersion parses responses of /version. Providers append a plus sign.
func TestParseVersion(t *testing.T) {
	for _, row := range []struct {
		text string
		want Version
		ok   bool
	}{
		{`{"major":"1","minor":"38","gitVersion":"v1.38.0-beta.0"}`, Version{38, "v1.38.0-beta.0"}, true},
		{`{"major":"1","minor":"37+","gitVersion":"v1.37.1-gke.7"}`, Version{37, "v1.37.1-gke.7"}, true},
		{`{"major":"2","minor":"1","gitVersion":"v2.1.0"}`, Version{}, false},
		{`{"major":"1","minor":"","gitVersion":"v0.0.0-master"}`, Version{}, false},
		{`{"major":"1","minor":"-3"}`, Version{}, false},
		{`<html>`, Version{}, false},
	} {
		if got, err := parseVersion([]byte(row.text)); got != row.want || (err == nil) != row.ok {
			t.Errorf("%s: %+v, %v", row.text, got, err)
		}
	}
}
