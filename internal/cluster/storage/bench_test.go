package storage

import (
	"fmt"
	"testing"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/proof/build"
)

// large returns a store of nodes in three zones, each with a CSINode, and of bound
// claims, each of a pod, with attached volumes.
func large(nodes, claims int) *Store {
	s := New(func(int32, model.Aspect) {})
	s.Set(model.NewStorageClass(build.StorageClass("fast", "provisioner=d")))
	for i := range nodes {
		name := fmt.Sprint("node-", i)
		s.Seat(int32(i), name)
		s.SetNode(int32(i), true, nodeLabels(i))
		s.Set(model.NewCSINode(build.CSINode(name, "d=25")))
	}
	for i := range claims {
		s.Set(boundClaim(i, 1))
		s.Set(boundVolume(i, 1))
		s.Set(attachmentOf(i, i%nodes))
		s.Place(int32(i%nodes), userOf(fmt.Sprint("pod-", i), fmt.Sprint("claim-", i)))
	}
	return s
}

func nodeLabels(i int) map[string]string {
	return map[string]string{"host": fmt.Sprint("node-", i), "zone": fmt.Sprint("z", i%3), "arch": "amd64", "pool": "general"}
}

func boundClaim(i, version int) *model.Claim {
	return model.NewClaim(build.PersistentVolumeClaim(fmt.Sprint("claim-", i), fmt.Sprintf("storage=1Gi class=fast bound=volume-%d version=%d", i, version)))
}

func boundVolume(i, version int) *model.Volume {
	return model.NewVolume(build.PersistentVolume(fmt.Sprint("volume-", i), fmt.Sprintf("storage=1Gi class=fast csi=d/h-%d phase=Bound claim=default/claim-%d version=%d", i, i, version)))
}

func freeVolume(name, class, where string) *model.Volume {
	return model.NewVolume(build.PersistentVolume(name, "storage=1Gi class="+class, build.VolumeAffinity(where)))
}

func attachmentOf(i, node int) *model.VolumeAttachment {
	return model.NewVolumeAttachment(build.VolumeAttachment(fmt.Sprint("attachment-", i), fmt.Sprintf("attacher=d node=node-%d volume=volume-%d", node, i)))
}

func userOf(name, claim string) *model.Pod { return pod(name, build.Claims(claim)) }

func capacityOf(i int, size string) *model.StorageCapacity {
	return model.NewStorageCapacity(build.CSIStorageCapacity(fmt.Sprint("capacity-", i), "class=local capacity="+size, fmt.Sprint("host=node-", i)))
}

// BenchmarkObjects stores an object beside 50,000 claims in use and 5,000 nodes: a new
// version, or an object that is added and removed.
func BenchmarkObjects(b *testing.B) {
	s := large(build.Sized(5000), build.Sized(50_000))
	for i := range build.Sized(5000) {
		s.Set(capacityOf(i, "1Gi"))
		s.Set(freeVolume(fmt.Sprint("local-", i), "local", fmt.Sprint("host In node-", i)))
	}
	for i := range build.Sized(20_000) {
		s.Set(freeVolume(fmt.Sprint("shared-", i), "shared", "zone In z1"))
	}
	attached, count := attachmentOf(17, 17), model.NewCSINode(build.CSINode("node-17", "d=26"))
	for _, row := range []struct {
		name string
		sets [2]model.Compiled // an object without a second one is removed
	}{
		{"claim/version", [2]model.Compiled{boundClaim(17, 2), boundClaim(17, 3)}},
		{"claim/comes-and-goes", [2]model.Compiled{boundClaim(50_001, 1)}},
		{"claim/of-a-pod-comes-and-goes", [2]model.Compiled{boundClaim(17, 2)}},
		{"volume/version", [2]model.Compiled{boundVolume(17, 2), boundVolume(17, 3)}},
		{"volume/comes-and-goes", [2]model.Compiled{boundVolume(50_001, 1)}},
		{"volume/of-a-pod-comes-and-goes", [2]model.Compiled{boundVolume(17, 2)}},
		{"volume/local-comes-and-goes", [2]model.Compiled{freeVolume("local-17", "local", "host In node-17")}},
		{"volume/one-of-20000-free-comes-and-goes", [2]model.Compiled{freeVolume("shared-10000", "shared", "zone In z1")}},
		{"volume/only-free-one-of-a-zone-comes-and-goes", [2]model.Compiled{freeVolume("only", "other", "zone In z2")}},
		{"CSINode/count", [2]model.Compiled{count, model.NewCSINode(build.CSINode("node-17", "d=25"))}},
		{"CSINode/comes-and-goes", [2]model.Compiled{count}},
		{"attachment/version", [2]model.Compiled{attached, attachmentOf(17, 17)}},
		{"attachment/comes-and-goes", [2]model.Compiled{attached}},
		{"capacity/version", [2]model.Compiled{capacityOf(17, "1Gi"), capacityOf(17, "2Gi")}},
		{"capacity/comes-and-goes", [2]model.Compiled{capacityOf(17, "1Gi")}},
	} {
		b.Run(row.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Set(row.sets[0])
				if row.sets[1] != nil {
					s.Set(row.sets[1])
				} else {
					s.Remove(row.sets[0].Ref())
				}
			}
		})
	}
}

// BenchmarkSharedClaim adds and removes a pod that uses a claim of 20,000 pods on 5,000
// nodes, and stores a new version of the claim.
func BenchmarkSharedClaim(b *testing.B) {
	s := shared(build.Sized(5000), build.Sized(20_000))
	user := userOf("one-more", "claim-0")
	b.Run("pod", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Place(17, user)
			s.Displace(17, user)
		}
	})
	versions := [2]*model.Claim{boundClaim(0, 2), boundClaim(0, 3)}
	b.Run("claim", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			s.Set(versions[i%2])
		}
	})
}

// shared returns a store with a claim that pods on all nodes use, whose volume is
// attached to all of them.
func shared(nodes, pods int) *Store {
	s := large(nodes, 1)
	for i := range pods {
		s.Place(int32(i%nodes), userOf(fmt.Sprint("user-", i), "claim-0"))
	}
	for i := range nodes {
		s.Set(model.NewVolumeAttachment(build.VolumeAttachment(fmt.Sprint("shared-", i), fmt.Sprintf("attacher=d node=node-%d volume=volume-0", i))))
	}
	return s
}

// BenchmarkPodWithVolumes adds and removes a pod beside others with volumes on its node,
// in the store and in a draft.
func BenchmarkPodWithVolumes(b *testing.B) {
	s := large(build.Sized(5000), build.Sized(50_000))
	s.Set(boundClaim(50_001, 1))
	user := userOf("one-more", "claim-50001")
	b.Run("store", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.Place(17, user)
			s.Displace(17, user)
		}
	})
	b.Run("draft", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			u := s.At(17).Usage()
			u.Change(s, user, +1)
			u.Change(s, user, -1)
		}
	})
}

// BenchmarkNodeLabels changes a label of a node beside 5,000 local volumes, as many
// capacities and 20,000 free volumes of a zone.
func BenchmarkNodeLabels(b *testing.B) {
	s := large(build.Sized(5000), 0)
	for i := range build.Sized(5000) {
		s.Set(capacityOf(i, "1Gi"))
		s.Set(freeVolume(fmt.Sprint("local-", i), "local", fmt.Sprintf("zone In z%d; host In node-%d", i%3, i)))
	}
	for i := range build.Sized(20_000) {
		s.Set(freeVolume(fmt.Sprint("shared-", i), "shared", fmt.Sprint("zone In z", i%3)))
	}
	for _, key := range []string{"other", "zone", "host"} {
		b.Run(key, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				of := nodeLabels(17)
				of[key] += fmt.Sprint(i % 2)
				s.SetNode(17, true, of)
			}
		})
	}
}

// BenchmarkClass stores and removes a class with 50,000 unbound claims, and a class whose
// claims are all bound.
func BenchmarkClass(b *testing.B) {
	s := large(build.Sized(5000), build.Sized(50_000))
	for i := range build.Sized(50_000) {
		s.Set(model.NewClaim(build.PersistentVolumeClaim(fmt.Sprint("waiting-", i), "storage=1Gi class=slow")))
	}
	for _, name := range []string{"slow", "fast"} {
		class := model.NewStorageClass(build.StorageClass(name, "provisioner=d"))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s.Remove(class.Ref())
				s.Set(class)
			}
		})
	}
}

// BenchmarkSmallestFit reads the smallest of 20,000 free volumes that is large enough,
// and a capacity for a claim, on a node with both.
func BenchmarkSmallestFit(b *testing.B) {
	s := large(build.Sized(5000), 0)
	for i := range build.Sized(20_000) {
		s.Set(model.NewVolume(build.PersistentVolume(fmt.Sprint("shared-", i), fmt.Sprintf("storage=%dMi class=shared", 1+i), build.VolumeAffinity("zone In z2"))))
		if i < build.Sized(5000) {
			s.Set(capacityOf(i, "1Gi"))
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		found := false
		s.GroupsAt(17, "shared", func(g *Group) bool {
			g.AtLeast(int64(build.Sized(10_000))<<20, func(*model.Volume) bool { found = true; return false })
			return true
		})
		if !found || s.CapacityAt(17, "local", 1<<20) == nil {
			b.Fatal("nothing fits")
		}
	}
}
