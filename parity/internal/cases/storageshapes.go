package cases

import (
	"math/rand/v2"
	"slices"

	v1 "k8s.io/api/core/v1"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// volumePlugins are the plugins that these shapes are about.
func volumePlugins() []string {
	return []string{"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}
}

// volumes configures a shape about volumes.
type volumes struct {
	base            func(r *rand.Rand) Case // nodes and pods; nil for plain ones
	pending, placed weighted
	countMax        int  // limit of volumes on a node
	anyCapacity     bool // includes objects that kube-scheduler cannot score
	config          func(r *rand.Rand) []byte
	change          func(s *storage)
}

// VolumeShapes returns the shapes about volumes.
func VolumeShapes() []Shape {
	bound := weighted{boundDisk, boundSomewhere, boundInTree}
	held := weighted{withoutClaim, withoutVolume, lost, deleting, unboundImmediate, halfBound, modeless, ephemeral, ephemeral, ephemeralWithoutClaim,
		ephemeralWithoutVolume, ephemeralOfAnother, boundDisk, boundDisk, boundDisk, boundDisk, dynamic, static, nothing}
	limited := weighted{boundDisk, boundDisk, boundDisk, boundInTree, dynamic, inlineInTree, inlineInTree, ephemeral}
	late := weighted{dynamic, dynamic, dynamic, static, boundDisk}
	all := slices.Concat(bound, bound, limited, late, late, weighted{static, static, zoned, zoned, oncePod, inlineDisk, strictDisk, nothing})
	return []Shape{
		{"vol-bound", "bound claims: node affinity of all kinds, CSI and in-tree volumes, migrated on some nodes",
			volumes{pending: slices.Concat(bound, weighted{boundSomewhere, boundInTree}), countMax: 60}.draw},
		{"vol-held", "claims that hold their pod back, ephemeral volumes with right and wrong owners", volumes{pending: held, placed: limited, countMax: 60}.draw},
		{"vol-static", "unbound claims and the volumes that they can be bound to", volumes{pending: weighted{static, static, static, dynamic, boundSomewhere}, countMax: 60}.draw},
		{"vol-dynamic", "claims to be provisioned: topologies, selected nodes, tracked capacity, and its scores", volumes{pending: late, countMax: 60}.draw},
		{"vol-capacity", "the same with any capacities, without scores", volumes{pending: append(late, unclassed, unclassed), countMax: 60, anyCapacity: true}.draw},
		{"vol-once", "ReadWriteOncePod claims in use", volumes{pending: weighted{oncePod, oncePod, boundDisk}, placed: weighted{oncePod, boundDisk, boundDisk}, countMax: 60}.draw},
		{"vol-disks", "inline disks that pods on a node share", volumes{pending: weighted{inlineDisk}, placed: weighted{inlineDisk}, countMax: 60}.draw},
		{"vol-limits", "limits of volumes for each node and driver, with attachments", volumes{pending: limited, placed: limited, countMax: 4}.draw},
		{"vol-strict", "a driver that must be on the node", volumes{pending: weighted{strictDisk, strictLate, boundDisk}, placed: weighted{strictDisk, boundDisk}, countMax: 4}.draw},
		{"vol-zones", "zone labels of volumes and nodes", volumes{pending: weighted{zoned, zoned, zoned, dynamic, boundInTree}, countMax: 60}.draw},
		{"vol-errors", "volumes and selectors that fail the cycle", volumes{pending: append(late, boundDisk, untranslatable, brokenSelector, modeless, ephemeral, untranslatableInline),
			placed: weighted{boundDisk, boundDisk, boundDisk, ephemeral, ephemeralOfAnother, untranslatable, untranslatableInline}, countMax: 3}.draw},
		{"vol-plugins", "everything, with some of the four plugins disabled and in other orders", volumes{pending: slices.Concat(all, held, weighted{unboundImmediate, unboundImmediate, unboundImmediate, unboundImmediate}),
			placed: all, countMax: 8, anyCapacity: true, config: someVolumePlugins}.draw},
		{"vol-nominated", "everything, beside pods with a nominated node", volumes{pending: all, placed: all, countMax: 6, change: nominate}.draw},
		{"vol-mixed", "everything about volumes, with everything else", volumes{base: topology, pending: all, placed: all, countMax: 8}.draw},
		{"vol-crowd", "hundreds of nodes", volumes{base: large, pending: all, placed: all, countMax: 12}.draw},
	}
}

// bare draws nodes and pods for which only volumes decide.
func bare(r *rand.Rand) Case {
	size := random.Size{Nodes: 2 + r.IntN(14), Placed: r.IntN(30), Pending: 12}
	if chance(r, 3) {
		size.Nodes = r.IntN(2)
	}
	tc := Case{Config: EmptyConfig(), Cluster: random.Cluster(r, size)}
	keep(&tc.Cluster, 0)
	return tc
}

func large(r *rand.Rand) Case {
	tc := Case{Config: EmptyConfig(), Cluster: random.Cluster(r, random.Size{Nodes: 120 + r.IntN(120), Placed: 300, Pending: 10})}
	keep(&tc.Cluster, 0)
	return tc
}

func (v volumes) draw(r *rand.Rand) Case {
	base := v.base
	if base == nil {
		base = bare
	}
	tc := base(r)
	s := newStorage(r, &tc)
	s.relabel()
	s.classes()
	for _, class := range []string{localClass, otherClass, hybridClass} {
		s.free(class)
	}
	if v.anyCapacity {
		s.anyCapacities()
	} else {
		s.capacities()
	}
	s.csiNodes(v.countMax)
	for _, p := range tc.Pods {
		switch {
		case isPending(p):
			s.mount(p, v.pending)
		case v.placed != nil:
			s.mount(p, v.placed)
		}
	}
	s.preBind()
	s.attachments()
	if v.change != nil {
		v.change(s)
	}
	switch {
	case v.config != nil:
		tc.Config = v.config(r)
	case v.anyCapacity:
		tc.Config = configText(withoutStorageScore())
	case v.base == nil && chance(r, 40):
		tc.Config = configText(storageShape(r))
	}
	return tc
}

func nominate(s *storage) {
	for _, p := range s.tc.Pods {
		if isPending(p) && len(s.tc.Nodes) > 0 && chance(s.r, 40) {
			p.Status.NominatedNodeName = pick(s.r, s.tc.Nodes...).Name
		}
	}
}

// storageShape draws arguments and the weight of VolumeBinding.
func storageShape(r *rand.Rand) configv1.KubeSchedulerProfile {
	args := configv1.VolumeBindingArgs{BindTimeoutSeconds: ptr(int64(r.IntN(900)))}
	for at := int32(r.IntN(40)); at <= 100 && len(args.Shape) < 4; at += 1 + int32(r.IntN(60)) {
		args.Shape = append(args.Shape, configv1.UtilizationShapePoint{Utilization: at, Score: int32(r.IntN(11))})
	}
	p := configv1.KubeSchedulerProfile{SchedulerName: ptr(v1.DefaultSchedulerName), Plugins: &configv1.Plugins{}}
	p.PluginConfig = []configv1.PluginConfig{arguments("VolumeBinding", &args, &args.TypeMeta)}
	if chance(r, 50) {
		p.Plugins.MultiPoint.Enabled = []configv1.Plugin{{Name: "VolumeBinding", Weight: ptr(int32(1 + r.IntN(9)))}}
	}
	return p
}

// withoutStorageScore disables VolumeBinding's score, which is not always defined.
func withoutStorageScore() configv1.KubeSchedulerProfile {
	p := configv1.KubeSchedulerProfile{SchedulerName: ptr(v1.DefaultSchedulerName), Plugins: &configv1.Plugins{}}
	p.Plugins.Score.Disabled = []configv1.Plugin{{Name: "VolumeBinding"}}
	return p
}

// someVolumePlugins changes the order of the filters and disables some of the plugins,
// everywhere or as filters. That reveals results of the other plugins that these would
// prevent.
func someVolumePlugins(r *rand.Rand) []byte {
	p := withoutStorageScore()
	all := volumePlugins()
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, name := range all {
		off := configv1.Plugin{Name: name}
		switch n := r.IntN(100); {
		case n < 40:
			p.Plugins.MultiPoint.Disabled = append(p.Plugins.MultiPoint.Disabled, off)
		case n < 65:
			p.Plugins.Filter.Enabled = append(p.Plugins.Filter.Enabled, off)
		}
	}
	return configText(p)
}
