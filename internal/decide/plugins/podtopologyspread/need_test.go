package podtopologyspread_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestNeeds(t *testing.T) {
	x, y := wearing("app=x"), wearing("app=y")
	rs := func(name string) podPart { return ownedBy("apps/v1", "ReplicaSet", name) }
	one := hard(zone, "app=x")
	honor, ignore := hard(zone, "app=x", taintsPolicy("Honor")), hard(zone, "app=x", affinityPolicy("Ignore"))
	lists := listed(constraint(v1.DoNotSchedule, zone), constraint(v1.ScheduleAnyway, host))
	for _, row := range []struct {
		name          string
		profile       oracle.Profile
		a, b          *v1.Pod
		filter, score bool // whether the needs are equal
	}{
		{"same", spreadAlone(), pod(x, one), pod(x, one), true, true},
		{"labels that are not asked for", spreadAlone(), pod(x, one), pod(wearing("app=x v=1"), one), true, true},
		{"the pod itself is not selected", spreadAlone(), pod(x, one), pod(y, one), false, true},
		{"the pod itself does not matter to scores", spreadAlone(), pod(x, soft(zone, "app=x")), pod(y, soft(zone, "app=x")), true, true},
		{"match label keys", spreadAlone(), pod(wearing("v=1"), hard(zone, "app=x", matchKeys("v"))), pod(wearing("v=2"), hard(zone, "app=x", matchKeys("v"))), false, true},
		{"match label keys, soft", spreadAlone(), pod(wearing("v=1"), soft(zone, "app=x", matchKeys("v"))), pod(wearing("v=2"), soft(zone, "app=x", matchKeys("v"))), true, false},
		{"merged by the API server", spreadAlone(), pod(wearing("v=1"), hard(zone, "app=x v=1", matchKeys("v"))), pod(wearing("v=1"), hard(zone, "app=x v=1")), true, true},
		{"one way to write it", spreadAlone(), pod(x, hard(zone, "app=x")), pod(x, hard(zone, "app In x,x")), true, true},
		{"all and nothing", spreadAlone(), pod(x, soft(zone, "everything")), pod(x, soft(zone, "absent")), true, false},
		{"namespace", spreadAlone(), pod(x, one), pod(x, one, in("other")), false, true},
		{"key", spreadAlone(), pod(x, one), pod(x, hard(host, "app=x")), false, true},
		{"skew", spreadAlone(), pod(x, one), pod(x, hard(zone, "app=x", skew(2))), false, true},
		{"one domain is the least", spreadAlone(), pod(x, one), pod(x, hard(zone, "app=x", domains(1))), true, true},
		{"domains", spreadAlone(), pod(x, one), pod(x, hard(zone, "app=x", domains(2))), false, true},
		{"domains, soft", spreadAlone(), pod(x, soft(zone, "app=x")), pod(x, soft(zone, "app=x", domains(2))), true, true},
		{"order", spreadAlone(), pod(x, one, hard(host, "app=x")), pod(x, hard(host, "app=x"), one), false, true},
		{"the other action's", spreadAlone(), pod(x, one), pod(x, one, soft(host, "app=x")), true, false},
		{"node selector", spreadAlone(), pod(x, one), pod(x, one, nodeSelector("disk=ssd")), false, true},
		{"node selector, ignored", spreadAlone(), pod(x, ignore), pod(x, ignore, nodeSelector("disk=ssd")), true, true},
		{"nothing to honor", spreadAlone(), pod(x, one), pod(x, ignore), true, true},
		{"tolerations, ignored", spreadAlone(), pod(x, one), pod(x, one, tolerating("a")), true, true},
		{"tolerations, honored", spreadAlone(), pod(x, honor), pod(x, honor, tolerating("a")), false, true},
		{"hosts count their own", spreadAlone(), pod(x, soft(host, "app=x", taintsPolicy("Honor"))), pod(x, soft(host, "app=x")), true, true},
		{"parse errors", spreadAlone(), pod(x, hard(zone, "app In")), pod(x, hard(host, "app In")), true, true},
		{"another priority", lists, pod(x), pod(x, func(p *v1.Pod) { p.Spec.Priority = new(int32) }), true, true},
		{"defaults: labels", lists, pod(x), pod(y), false, false},
		{"defaults: owner", lists, pod(x, rs("r")), pod(x, rs("s")), false, false},
		{"defaults: owner that does not say", lists, pod(x), pod(x, ownedBy("batch/v1", "Job", "j")), true, true},
		{"defaults: kind of owner", lists, pod(x, rs("r")), pod(x, ownedBy("apps/v1", "StatefulSet", "r")), false, false},
		{"defaults: node selector", lists, pod(x), pod(x, nodeSelector("disk=ssd")), false, true},
	} {
		p := newPlugin(t, row.profile)
		a, b := model.NewPod(row.a), model.NewPod(row.b)
		if equal := plugintest.FilterNeed(p, a) == plugintest.FilterNeed(p, b); equal != row.filter {
			t.Errorf("%s: filter needs %s and %s", row.name, plugintest.FilterNeed(p, a), plugintest.FilterNeed(p, b))
		}
		if equal := plugintest.ScoreNeed(p, a) == plugintest.ScoreNeed(p, b); equal != row.score {
			t.Errorf("%s: score needs %s and %s", row.name, plugintest.ScoreNeed(p, a), plugintest.ScoreNeed(p, b))
		}
	}
}

func TestZeroNeeds(t *testing.T) {
	x := wearing("app=x")
	hardOnly, softOnly := listed(constraint(v1.DoNotSchedule, zone)), listed(constraint(v1.ScheduleAnyway, zone))
	for _, row := range []struct {
		name          string
		profile       oracle.Profile
		pod           *v1.Pod
		filter, score bool // whether the need is zero
	}{
		{"System defaults", spreadAlone(), pod(x), true, false},
		{"System defaults, no label and no controller", spreadAlone(), pod(), true, true},
		{"System defaults, owned without labels", spreadAlone(), pod(ownedBy("apps/v1", "ReplicaSet", "r")), true, false},
		{"System defaults, owned by a job", spreadAlone(), pod(ownedBy("batch/v1", "Job", "j")), true, true},
		{"no defaults", listed(), pod(x), true, true},
		{"hard defaults", hardOnly, pod(x), false, true},
		{"soft defaults", softOnly, pod(x), true, false},
		{"own hard", softOnly, pod(x, hard(zone, "app=x")), false, true},
		{"own soft", hardOnly, pod(x, soft(zone, "app=x")), true, false},
	} {
		p := newPlugin(t, row.profile)
		if zero := plugintest.FilterNeed(p, model.NewPod(row.pod)).IsZero(); zero != row.filter {
			t.Errorf("%s: filter need is zero: %t", row.name, zero)
		}
		if zero := plugintest.ScoreNeed(p, model.NewPod(row.pod)).IsZero(); zero != row.score {
			t.Errorf("%s: score need is zero: %t", row.name, zero)
		}
	}
}
