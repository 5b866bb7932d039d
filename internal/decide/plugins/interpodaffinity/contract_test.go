package interpodaffinity_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/plugintest"
)

func TestContract(t *testing.T) {
	plugintest.CheckContract(t, newPlugin(t, nil), plugintest.Contract{
		Name: "InterPodAffinity", Reads: []model.Kind{model.NamespaceKind},
		Events: []string{
			"AssignedPodAdd AssignedPodDelete AssignedPodUpdatePodLabel, hint, alike, cause", "AssignedPodDelete, hint, alike, cause",
			"TargetPodUpdatePodLabel", "NodeAdd NodeDelete NodeUpdateNodeLabel, hint, alike, cause", "NodeAdd NodeDelete NodeUpdateNodeLabel, asked",
			"NamespaceUpdate, hint, alike, cause",
		},
	})
}

// TestCauses has, for each pod, the inputs of its hints and the causes: about pods that
// it wants or avoids, about pods that avoid it, about nodes.
func TestCauses(t *testing.T) {
	web := wearing("app=web")
	db, c, all := term("rack", "app=db"), term("zone", "tier=c"), term("zone", "app=db", whereNamespace("everything"))
	broken := term("rack", "app In")
	for _, row := range []struct {
		name           string
		pod            *v1.Pod
		alikes, causes [4]string
	}{
		{"no terms", pod(web, likes(1, db), dislikes(1, broken)),
			[4]string{
				`required `,
				`"default","app"="web"`,
				`topologies//`,
				`"default"`,
			},
			[4]string{
				`wants none; keys ""`,
				`wants any; keys "own:app!" "own:app=web" "own@default" "own@default:app=web"`,
				`wants none; keys ""`,
				`wants "own@default"; keys none`,
			}},
		{"near", pod(web, near(db, c)),
			[4]string{
				`required near "rack" "default"/nil/&"app"In"db"` + "\n" + `near "zone" "default"/nil/&"tier"In"c"`,
				`"default","app"="web"`,
				`topologies/"rack""zone"/`,
				`"default"`,
			},
			[4]string{
				`wants none or "wanted@default:app=db" & "wanted@default" & "wanted@default:tier=c" & "wanted@default"; ` +
					`keys "" "changed:app!" "changed:tier!"`,
				`wants any; keys "own:app!" "own:app=web" "own@default" "own@default:app=web"`,
				`wants none or "topology:rack!" or "topology:zone!"; keys "" "topology:rack!" "topology:zone!"`,
				`wants "own@default"; keys none`,
			}},
		{"apart", pod(web, apart(db, c)),
			[4]string{
				`required apart "rack" "default"/nil/&"app"In"db"` + "\n" + `apart "zone" "default"/nil/&"tier"In"c"`,
				`"default","app"="web"`,
				`topologies//"rack""zone"`,
				`"default"`,
			},
			[4]string{
				`wants none or "unwanted@default:app=db" & "unwanted@default" or "unwanted@default:tier=c" & "unwanted@default"; ` +
					`keys "" "changed:app!" "changed:tier!"`,
				`wants any; keys "own:app!" "own:app=web" "own@default" "own@default:app=web"`,
				`wants any; keys "" "topology:rack!" "topology:zone!"`,
				`wants "own@default"; keys none`,
			}},
		{"both", pod(web, near(c), apart(db, all)),
			[4]string{
				`required apart "rack" "default"/nil/&"app"In"db"` + "\n" + `apart "zone"//&"app"In"db"` + "\n" + `near "zone" "default"/nil/&"tier"In"c"`,
				`"default","app"="web"`,
				`topologies/"zone"/"rack""zone"`,
				`"default"apart "zone"//&"app"In"db"`,
			},
			[4]string{
				`wants none or "unwanted@default:app=db" & "unwanted@default" or "unwanted:app=db" or "wanted@default:tier=c" & "wanted@default"; ` +
					`keys "" "changed:app!" "changed:tier!"`,
				`wants any; keys "own:app!" "own:app=web" "own@default" "own@default:app=web"`,
				`wants any; keys "" "topology:rack!" "topology:zone!"`,
				`wants "label"|"own@default"; keys none`,
			}},
		{"broken", pod(web, near(c), apart(broken)),
			[4]string{
				`required apart "rack" "default"/nil/&"app"In` + "\n" + `near "zone" "default"/nil/&"tier"In"c"`,
				`"default","app"="web"`,
				`broken`,
				`"default"`,
			},
			[4]string{
				`wants any; keys none`,
				`wants any; keys "own:app!" "own:app=web" "own@default" "own@default:app=web"`,
				`wants any; keys none`,
				`wants "own@default"; keys none`,
			}},
		{"broken affinity", pod(web, near(broken), apart(c)),
			[4]string{
				`required apart "zone" "default"/nil/&"tier"In"c"` + "\n" + `near "rack" "default"/nil/&"app"In`,
				`"default","app"="web"`,
				`broken`,
				`"default"`,
			},
			[4]string{
				`wants any; keys none`,
				`wants any; keys "own:app!" "own:app=web" "own@default" "own@default:app=web"`,
				`wants any; keys none`,
				`wants "own@default"; keys none`,
			}},
	} {
		p, waiting := newPlugin(t, nil), model.NewPod(row.pod)
		plugintest.Equal(t, row.name+": alike", plugintest.Alikes(p, waiting), row.alikes[:]...)
		plugintest.Equal(t, row.name+": causes", plugintest.Causes(p, waiting), row.causes[:]...)
	}
}

func TestTouched(t *testing.T) {
	db, c := term("rack", "app=db"), term("zone", "tier=c", whereNamespace("everything"))
	web := wearing("app=web")
	for _, row := range []struct {
		name  string
		event model.Event
		want  []string
	}{
		{"came", came(web, near(db), apart(c)), []string{
			`has "wanted:app!" "wanted:app=web" "wanted@default" "wanted@default:app=web"; seeks any`,
		}},
		{"went", went(web), []string{
			`has "unwanted:app!" "unwanted:app=web" "unwanted@default" "unwanted@default:app=web"; seeks any`,
			`has none; seeks none`,
		}},
		{"repelling went", went(web, near(db), apart(db, c), dislikes(1, db)), []string{
			`has "unwanted:app!" "unwanted:app=web" "unwanted@default" "unwanted@default:app=web"; seeks any`,
			`has none; seeks none or "own@default:app=db" & "own@default" or "own:tier=c"`,
		}},
		{"broken went", went(web, apart(c, term("rack", "app In"))), []string{
			`has "unwanted:app!" "unwanted:app=web" "unwanted@default" "unwanted@default:app=web"; seeks any`,
			`has none; seeks any`,
		}},
		{"relabelled", relabelled("app=web same=1", "app=db same=1"), []string{
			`has "unwanted:app!" "unwanted:app=web" "unwanted:same!" "unwanted:same=1" "unwanted@default" "unwanted@default:app=web" "unwanted@default:same=1" ` +
				`"wanted:app!" "wanted:app=db" "wanted:same!" "wanted:same=1" "wanted@default" "wanted@default:app=db" "wanted@default:same=1"; ` +
				`seeks "changed:app!"`,
		}},
		{"node came", nodeCame("zone=z rack=r"), []string{
			`has "topology:rack!" "topology:zone!"; seeks any`, `has "new"; seeks any`,
		}},
		{"node relabelled", nodeRelabelled("zone=z1 rack=r gone=1", "zone=z2 rack=r came=1"), []string{
			`has "left:gone!" "topology:came!" "topology:rack!" "topology:zone!"; seeks "topology:came!"|"topology:gone!"|"topology:zone!"`,
			`has "left:gone!" "left:zone!"; seeks any`,
		}},
	} {
		plugintest.Equal(t, row.name, plugintest.Touched(newPlugin(t, nil), row.event), row.want...)
	}
}
