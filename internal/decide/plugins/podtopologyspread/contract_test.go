package podtopologyspread_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, newPlugin(t, spreadAlone()), plugintest.Contract{
		Name:  "PodTopologySpread",
		Reads: []model.Kind{model.ServiceKind, model.ReplicationControllerKind, model.ReplicaSetKind, model.StatefulSetKind},
		Events: []string{
			"AssignedPodAdd AssignedPodDelete AssignedPodUpdate, hint, alike, cause", "TargetPodUpdatePodLabel TargetPodUpdatePodToleration, hint",
			"NodeAdd NodeDelete NodeUpdateNodeLabel NodeUpdateNodeTaint, hint, alike, cause",
		},
	})
}

// TestCauses has, for each pod, the inputs of its hints and the causes: about pods that
// it counts, and about nodes.
func TestCauses(t *testing.T) {
	x := wearing("app=x v=1")
	defaults := listed(constraint(v1.DoNotSchedule, zone), constraint(v1.DoNotSchedule, "rack"))
	for _, row := range []struct {
		name           string
		profile        oracle.Profile
		pod            *v1.Pod
		alikes, causes []string
	}{
		{"soft", spreadAlone(), pod(x, soft(zone, "app=x")),
			[]string{
				`"default"`,
				`topologies`,
			},
			[]string{
				`wants none; keys ""`,
				`wants all; keys ""`,
			}},
		{"hard", spreadAlone(), pod(x, hard(zone, "app=x"), soft(host, "app=x")),
			[]string{
				`"default" &"app"In"x"`,
				`topologies "topology.kubernetes.io/zone"`,
			},
			[]string{
				`wants none or "pod@default:app=x" & "pod@default"; keys "" "changed@default:app"`,
				`wants "topology:topology.kubernetes.io/zone!"; keys "" "topology:topology.kubernetes.io/zone!"`,
			}},
		{"two", spreadAlone(), pod(x, hard(zone, "app=x"), hard("rack", "app NotIn y", matchKeys("v", "w")), hard(zone, "tier=c")),
			[]string{
				`"default" &"app"In"x" &"app"NotIn"y"&"v"In"1" &"tier"In"c"`,
				`topologies "rack" "topology.kubernetes.io/zone"`,
			},
			[]string{
				`wants none or "pod@default:app=x" & "pod@default" or "pod@default:v=1" & "pod@default" or "pod@default:tier=c" & "pod@default"; ` +
					`keys "" "changed@default:app" "changed@default:tier" "changed@default:v"`,
				`wants "topology:rack!" & "topology:topology.kubernetes.io/zone!"; keys "" "topology:rack!" "topology:topology.kubernetes.io/zone!"`,
			}},
		{"everything", spreadAlone(), pod(x, hard(zone, "everything")),
			[]string{
				`"default" `,
				`topologies "topology.kubernetes.io/zone"`,
			},
			[]string{
				`wants none or "pod@default"; keys ""`,
				`wants "topology:topology.kubernetes.io/zone!"; keys "" "topology:topology.kubernetes.io/zone!"`,
			}},
		{"broken", spreadAlone(), pod(x, hard(zone, "app In")),
			[]string{
				`"default" &"app"In`,
				`topologies "topology.kubernetes.io/zone"`,
			},
			[]string{
				`wants any; keys none`,
				`wants "topology:topology.kubernetes.io/zone!"; keys "" "topology:topology.kubernetes.io/zone!"`,
			}},
		{"without defaults", spreadAlone(), pod(x),
			[]string{
				`"default" defaults`,
				`topologies`,
			},
			[]string{
				`wants none; keys ""`,
				`wants all; keys ""`,
			}},
		{"defaults", defaults, pod(x),
			[]string{
				`"default" defaults`,
				`topologies "rack" "topology.kubernetes.io/zone"`,
				`"default" belongs,"app"="x","v"="1"`,
			},
			[]string{
				`wants none or "pod@default"; keys "" "changed@default"`,
				`wants "topology:rack!" & "topology:topology.kubernetes.io/zone!"; keys "" "topology:rack!" "topology:topology.kubernetes.io/zone!"`,
				`wants any; keys "" "service@default:app=x" "service@default:v=1"`,
			}},
	} {
		p, waiting := newPlugin(t, row.profile), model.NewPod(row.pod)
		plugintest.Equal(t, row.name+": alike", plugintest.Alikes(p, waiting), row.alikes...)
		plugintest.Equal(t, row.name+": causes", plugintest.Causes(p, waiting), row.causes...)
	}
}

func TestTouched(t *testing.T) {
	x, y := wearing("app=x gone=1"), wearing("app=y came=1")
	z1, z2 := zoned("n=z1")[0], with(zoned("n=z2"), "n", also("rack=r1"))[0]
	taint := with(zoned("n=z1"), "n", tainted)[0]
	for _, row := range []struct {
		name  string
		event model.Event
		want  string
	}{
		{"came", podEvent(model.Add, nil, pod(x)),
			`has "pod:app!" "pod:app=x" "pod:gone!" "pod:gone=1" "pod@default" ` +
				`"pod@default:app=x" "pod@default:gone=1"; seeks any`},
		{"went", podEvent(model.Delete, pod(x), nil),
			`has "pod:app!" "pod:app=x" "pod:gone!" "pod:gone=1" "pod@default" ` +
				`"pod@default:app=x" "pod@default:gone=1"; seeks any`},
		{"relabelled", podEvent(model.UpdatePodLabel, pod(x), pod(y)),
			`has "pod:app!" "pod:app=x" "pod:app=y" "pod:came!" "pod:came=1" "pod:gone!" "pod:gone=1" "pod@default" ` +
				`"pod@default:app=x" "pod@default:app=y" "pod@default:came=1" "pod@default:gone=1"; ` +
				`seeks "changed@default"|"changed@default:app"|"changed@default:came"|"changed@default:gone"`},
		{"the same labels", podEvent(model.UpdatePodLabel, pod(x), pod(x)), `has none; seeks none`},
		{"node came", nodeEvent(model.Add, nil, z1),
			`has "topology:kubernetes.io/hostname!" "topology:topology.kubernetes.io/zone!"; seeks any`},
		{"node went", nodeEvent(model.Delete, z1, nil),
			`has "topology:kubernetes.io/hostname!" "topology:topology.kubernetes.io/zone!"; seeks any`},
		{"node moved", nodeEvent(model.UpdateNodeLabel, z1, z2),
			`has "topology:kubernetes.io/hostname!" "topology:rack!" "topology:topology.kubernetes.io/zone!"; ` +
				`seeks "topology:rack!"|"topology:topology.kubernetes.io/zone!"`},
		{"node lost a taint", nodeEvent(model.UpdateNodeTaint, taint, z1),
			`has "topology:kubernetes.io/hostname!" "topology:topology.kubernetes.io/zone!"; seeks any`},
		{"node the same", nodeEvent(model.UpdateNodeTaint, z1, z1),
			`has "topology:kubernetes.io/hostname!" "topology:topology.kubernetes.io/zone!"; seeks none`},
	} {
		plugintest.Equal(t, row.name, plugintest.Touched(newPlugin(t, spreadAlone()), row.event), row.want)
	}
}
