package random_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// The reservation for a claim must agree with the library's search and writes. The
// library visits volumes in the given order.
func TestMatchingOfVolumes(t *testing.T) {
	found := 0
	for i := range draws {
		r := random.New(uint64(i))
		n := build.NodesInZones("n=z1")[0]
		c := oracle.Cluster{Nodes: []*v1.Node{n}}
		c.Add(build.StorageClass("np", ""))
		claim := build.PersistentVolumeClaim("c", "class=np version=3 "+words(r, 30, "storage=4Gi", "modes=RWO,RWX", "mode=Filesystem", "attributes=gold"))
		if r.IntN(4) == 0 {
			build.ClaimSelector("disk=ssd")(claim)
		}
		c.Add(claim)
		for _, name := range strings.Fields("v1 v2 v3 v4 v5 v6")[:r.IntN(7)] {
			c.Add(randomVolume(r, name))
		}
		volumes := slices.Clone(c.PersistentVolumes)
		slices.SortFunc(volumes, func(a, b *v1.PersistentVolume) int {
			small, large := a.Spec.Capacity[v1.ResourceStorage], b.Spec.Capacity[v1.ResourceStorage]
			return cmp.Or(small.Cmp(large), cmp.Compare(a.Name, b.Name))
		})
		want, err := volume.FindMatchingVolume(claim, volumes, n, nil, true, true)
		if err != nil {
			t.Fatal(err)
		}
		reserved, ok := oracle.ReserveVolumes(c, build.Pod(build.Claims("c")), "n")
		if ok != (want != nil) {
			t.Fatalf("seed %d: reserved %v, the library finds %v", i, reserved, want)
		}
		if want == nil {
			continue
		}
		found++
		bound, _, err := volume.GetBindVolumeToClaim(want, claim)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]*v1.PersistentVolume{bound}, reserved.Volumes()); diff != "" {
			t.Fatalf("seed %d: library (-) and oracle (+) differ:\n%s", i, diff)
		}
	}
	if found < draws/4 || found > draws*9/10 {
		t.Errorf("%d of %d claims found a volume", found, draws)
	}
}

// randomVolume is of the class np.
func randomVolume(r *rand.Rand, name string) *v1.PersistentVolume {
	text := "class=np storage=" + pickOne(r, "2Gi", "4Gi", "8Gi", "8192Mi") + " " + words(r, 15, "modes=RWO,RWX,ROX", "modes=ROX", "mode=Block", "attributes=gold",
		"phase=Released", "deleting", "label=disk=ssd", "annotation=pv.kubernetes.io/bound-by-controller=yes")
	if r.IntN(4) == 0 {
		text += " claim=" + pickOne(r, "default/c", "default/c/c", "default/c/old", "other/c", "default/d")
	}
	if r.IntN(3) > 0 {
		return build.PersistentVolume(name, text)
	}
	const zone = "topology.kubernetes.io/zone"
	return build.PersistentVolume(name, text, build.VolumeAffinity(strings.Split(
		pickOne(r, zone+" In z1", zone+" In z2", zone+" NotIn z2", zone+" Exists; "+zone+" NotIn z1", "", "_ In x|"+zone+" In z1", "|"+zone+" Gt 1"), "|")...))
}

// words joins the drawn words.
func words(r *rand.Rand, percent int, from ...string) string {
	var all []string
	for _, word := range from {
		if r.IntN(100) < percent {
			all = append(all, word)
		}
	}
	return strings.Join(all, " ")
}

func pickOne(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }
