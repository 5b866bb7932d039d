package simulate_test

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/internal/offline/simulate"
)

// sizeOf parses a size such as "nodes=10,pods=100".
func sizeOf(text string) (simulate.Size, error) {
	of := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		key, value, _ := strings.Cut(pair, "=")
		of[key] = value
	}
	return simulate.SizeOf(of)
}

// TestSizeOf covers valid sizes, and the errors of others.
func TestSizeOf(t *testing.T) {
	const known = ": must be one of nodes, pods, running, zones, apps, groups, volumes, devices, different"
	for _, row := range []struct {
		of   string
		want simulate.Size
		err  string
	}{
		{"nodes=10,pods=1000", simulate.Size{Nodes: 10, Zones: 3, Pods: 1000, Apps: 10}, ""},
		{"nodes=1,running=101,zones=7", simulate.Size{Nodes: 1, Zones: 7, Running: 101, Apps: 2}, ""},
		{"nodes=1", simulate.Size{Nodes: 1, Zones: 3, Apps: 1}, ""},
		{"nodes=1,apps=5", simulate.Size{Nodes: 1, Zones: 3, Apps: 5}, ""},
		{"nodes=1,groups=2", simulate.Size{Nodes: 1, Zones: 3, Apps: 1, Groups: 2}, ""},
		{"nodes=1,pods=3,volumes=3,devices=2", simulate.Size{Nodes: 1, Zones: 3, Pods: 3, Apps: 1, Volumes: 3, Devices: 2}, ""},
		{"nodes=1,different=true", simulate.Size{Nodes: 1, Zones: 3, Apps: 1, Different: true}, ""},
		{"nodes=1,different=1", simulate.Size{Nodes: 1, Zones: 3, Apps: 1, Different: true}, ""},
		{"nodes=1,different=false", simulate.Size{Nodes: 1, Zones: 3, Apps: 1}, ""},
		{"node=1", simulate.Size{}, `key "node"` + known + "; did you mean nodes?"},
		{"gropus=1", simulate.Size{}, `key "gropus"` + known + "; did you mean groups?"},
		{"deployments=1", simulate.Size{}, `key "deployments"` + known},
		{"nodes=0", simulate.Size{}, "nodes=0: must be a whole number from 1 to 2147483647, such as nodes=5000"},
		{"pods=1", simulate.Size{}, "nodes is missing, such as nodes=5000"},
		{"nodes=1,pods=-1", simulate.Size{}, "pods=-1: must be a whole number from 0 to 2147483647, such as pods=50000"},
		{"nodes=1,groups=-8", simulate.Size{}, "groups=-8: must be a whole number from 0 to 2147483647, such as groups=100"},
		{"nodes=1,volumes=-1", simulate.Size{}, "volumes=-1: must be a whole number from 0 to 2147483647, such as volumes=1000"},
		{"nodes=1,devices=some", simulate.Size{}, "devices=some: must be a whole number from 0 to 2147483647, such as devices=1000"},
		{"nodes=1,zones=0", simulate.Size{}, "zones=0: must be a whole number from 1 to 2147483647, such as zones=3"},
		{"nodes=1,apps=0", simulate.Size{}, "apps=0: must be a whole number from 1 to 2147483647, such as apps=500"},
		{"nodes=9999999999", simulate.Size{}, "nodes=9999999999: must be a whole number from 1 to 2147483647, such as nodes=5000"},
		{"nodes=1,different=2", simulate.Size{}, "different=2: must be true or false"},
		{"nodes=1,pods=3,volumes=4", simulate.Size{}, "volumes=4: must be at most pods=3, because a pod has one claim; raise pods to 4"},
		{"nodes=1,pods=3,devices=4", simulate.Size{}, "devices=4: must be at most pods=3, because a pod has one claim; raise pods to 4"},
	} {
		got, err := sizeOf(row.of)
		if row.err == "" && (err != nil || got != row.want) || row.err != "" && (err == nil || err.Error() != row.err) {
			t.Errorf("%v: %+v, %v; want %+v, %q", row.of, got, err, row.want, row.err)
		}
	}
}
