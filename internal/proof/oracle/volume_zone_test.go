package oracle

import "testing"

// The rows Z are the worked examples of VolumeZone.

func TestVolumeZone(t *testing.T) {
	label := func(pairs ...string) string {
		text := "phase=Bound"
		for _, pair := range pairs {
			text += " label=" + pair
		}
		return text
	}
	tests := []struct{ row, volume, node, want string }{
		{"Z1", label(gaZone + "=z1"), "", "fits"},
		{"Z2", label(gaZone + "=z1__z2"), gaZone + "=z2", "fits"},
		{"Z3", label(gaZone + "=z1"), gaZone + "=z3", "zone"},
		{"Z4", label(gaZone + "=z1"), gaRegion + "=r1", "zone"},
		{"Z5", label(betaZone + "=z1"), gaZone + "=z1", "fits"},
		{"Z5 another", label(betaZone + "=z1"), gaZone + "=z2", "zone"},
		{"Z6", label(gaZone + "=z1"), betaZone + "=z1", "zone"},
		{"Z7", label(gaZone + "=z1__"), gaZone + "=z9", "fits"},
		{"Z9", label(gaZone+"=z1", gaRegion+"=r1"), gaZone + "=z1 " + gaRegion + "=r2", "zone"},
		{"both keys, both must hold", label(gaZone+"=z1", betaZone+"=z2"), gaZone + "=z1", "zone"},
		{"the node's beta label counts first", label(betaZone + "=z1"), betaZone + "=z1 " + gaZone + "=z2", "fits"},
		{"an empty label", label(gaZone + "="), gaZone + "=z9", "fits"},
	}
	for _, tt := range tests {
		c := cluster(nodes(newNode("n1", labelled(tt.node))))
		c.Add(pv("v", tt.volume))
		c.Add(pvc("c", "bound=v"))
		if got := ruling(Judge(c, pod(claims("c")), DefaultProfile())); got != tt.want {
			t.Errorf("row %s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}

// VolumeBinding would reject all of these first, except the missing volume, so it is
// disabled here.
func TestVolumeZonePreFilter(t *testing.T) {
	c := storing("n1=z1", nil, pvc("none", ""), pvc("lost", "class=gone"), pvc("vague", "class=vague"), class("vague", "mode="), pvc("now", "class=now"),
		class("now", "mode=Immediate"), pvc("later", "class=later"), class("later", ""), pvc("vanished", "bound=v"), pvc("p-scratch", "volume=v owner=p"))
	tests := []struct {
		row  string
		part podPart
		want string
	}{
		{"no class", claims("none"), "pod: VolumeZone: PersistentVolumeClaim had no pv name and storageClass name"},
		{"no such class", claims("lost"), `pod: VolumeZone: storageclass.storage.k8s.io "gone" not found`},
		{"no mode", claims("vague"), `pod: VolumeZone: VolumeBindingMode not set for StorageClass "vague"`},
		{"immediate", claims("later now"), "pod: VolumeZone: PersistentVolume had no name"},
		{"no such volume", claims("vanished"), `pod: VolumeZone: persistentvolume "v" not found`},
		{"Z10", claims("later"), "fits"},
		{"ephemeral", ephemeral("scratch"), "fits"},
	}
	for _, tt := range tests {
		if got := ruling(Judge(c, pod(tt.part), Profile{Disabled: map[string]bool{"VolumeBinding": true}})); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.row, got, tt.want)
		}
	}
}
