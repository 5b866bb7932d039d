package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/devcluster/internal/options"
)

func TestNothingWaitsForAPartThatDoesNotRun(t *testing.T) {
	l := &layout{dir: "data"}
	for _, test := range []struct {
		kwok, controllers     bool
		admission, controller string
	}{
		{true, true, "TaintNodesByCondition", "*,-ttl-controller"},
		{false, true, "TaintNodesByCondition", "*,-ttl-controller,-node-lifecycle-controller"},
		{true, false, "TaintNodesByCondition,ServiceAccount", ""},
		{false, false, "TaintNodesByCondition,ServiceAccount", ""},
	} {
		o := options.Options{Kwok: test.kwok, Controllers: test.controllers}
		admission := flagWith(apiServerCommand(l, ports{}, o).Args, "--disable-admission-plugins=")
		if admission != test.admission {
			t.Errorf("%+v: admission plugins %s are off, want %s", test, admission, test.admission)
		}
		controller := flagWith(controllerManagerCommand(l, ports{}, o).Args, "--controllers=")
		if test.controllers && controller != test.controller {
			t.Errorf("%+v: controllers are %s, want %s", test, controller, test.controller)
		}
	}
}

// flagWith returns the part after prefix of the first matching flag, or nothing.
func flagWith(flags []string, prefix string) string {
	for _, flag := range flags {
		if value, ok := strings.CutPrefix(flag, prefix); ok {
			return value
		}
	}
	return ""
}

func TestFeatureGatesReachEveryKubernetesComponent(t *testing.T) {
	l, o := &layout{dir: "data"}, options.Options{FeatureGates: "A=true"}
	for _, c := range [][]string{apiServerCommand(l, ports{}, o).Args, controllerManagerCommand(l, ports{}, o).Args, kwokCommand(l, o).Args} {
		if !slices.Contains(c, "--feature-gates=A=true") {
			t.Errorf("%v lacks the gates", c)
		}
	}
}

func TestRequestsAreLoggedIfAPolicySaysWhich(t *testing.T) {
	l := &layout{dir: "data"}
	if c := apiServerCommand(l, ports{}, options.Options{}); strings.Contains(strings.Join(c.Args, " "), "--audit") {
		t.Errorf("requests are logged although nobody wants that: %v", c.Args)
	}
	c := apiServerCommand(l, ports{}, options.Options{AuditPolicy: "p"})
	if policy, log := flagWith(c.Args, "--audit-policy-file="), flagWith(c.Args, "--audit-log-path="); policy != "p" || log != "data/logs/audit.log" {
		t.Errorf("the policy is %q, the log %q", policy, log)
	}
}

func TestPortsAreDistinct(t *testing.T) {
	p, err := choosePorts()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{p.etcdClient: true, p.etcdPeer: true, p.apiServer: true, p.controllers: true}
	if len(seen) != 4 {
		t.Errorf("ports repeat: %+v", p)
	}
}
