// Package random makes clusters, pods, changes and profiles for property tests and
// simulations.
//
// It takes a *rand.Rand and returns API objects; the same seed gives the same objects. It
// owns nothing: every returned object is new, and arguments never change. It reads no
// clock; times are fixed.
//
// # Vocabulary
//
// The vocabulary is small on purpose, so that the interesting coincidences occur: a port
// in use on another IP, a label that NotIn names and the node lacks, a pod that fits
// exactly.
//
//	nodes        node-0, node-1, ... labelled with kubernetes.io/hostname, and sometimes
//	             zone a b c, disk ssd hdd, cores 4 16 abc
//	taints       dedicated=gpu, dedicated=db, sla=950, sla=0950, and the unschedulable
//	             taint, with each effect; cordoned or not
//	allocatable  cpu 0 to 8 (also 1500500u), memory 0 to 16Gi, pods absent or 0 to 110,
//	             ephemeral-storage absent or up to 10Gi, example.com/gpu,
//	             example.com/fpga, hugepages-2Mi; any may be absent
//	images       five, each with one size throughout: nginx:latest, app:v1,
//	             localhost:5000/app:latest, a digest, and one too small to count
//	features     the three that a pod can need, a registered one that it cannot, and Aaa
//	             and Zzz, which are unknown; sometimes unsorted
//	requests     absent, zero, and multiples that add up to the amounts above; 100500u
//	             and 1500m to make rounding visible
//	pods         1 or 2 containers, 0 to 2 init containers (about a third of them
//	             sidecars), sometimes overhead, pod-level requests (not always as large
//	             as the containers'), host network without host users, bind mount
//	             options, image volumes
//	resizes      per container or pod-wide status, in any combination, Infeasible or
//	             Deferred or without condition
//	ports        80 443 8080, protocol absent TCP UDP, IP absent 0.0.0.0 10.0.0.1
//	             127.0.0.1 ::
//	tolerations  every operator (absent, Equal, Exists, Lt, Gt) and effect, on the
//	             taints' keys or on all keys
//	affinity     node selectors, required and preferred terms with every operator, terms
//	             on metadata.name, empty and malformed terms (Gt abc), preferred terms
//	             of weight 0; preferences that fail a whole cycle only come from
//	             WithBrokenPreference
//	priorities   absent, -5, 0, 10, 1000
//	labels       of pods: app web db, tier front back, either may be absent
//
// Functions whose names begin with Topology add the inputs of PodTopologySpread and
// InterPodAffinity. They leave out most objects that would reject a node for other
// reasons:
//
//	nodes        topology.kubernetes.io/zone za zb zc or empty, rack r1 r2 r3; either
//	             may be absent, as may be the host name, which can also equal node-0's;
//	             a few nodes have no labels at all
//	namespaces   default, other, third, with labels team x y and env prod, or unknown
//	             while pods are in them
//	services     selecting by app, by tier, by both, everything or nothing
//	controllers  replication controllers, replica sets and stateful sets web and db;
//	             pods also name a deleted one, and an owner that is no controller
//	pods         labels like the others' plus version v1 v2
//	constraints  up to three, hard and soft, on zone, host name, rack and a key that no
//	             node has; every policy and argument
//	terms        up to two of each of the four kinds, on the same keys, with namespaces
//	             listed, selected, both or neither
//	selectors    absent, empty, and every operator; matchLabelKeys and mismatchLabelKeys
//	             in the API server's merged form; malformed selectors only come from
//	             WithBrokenSelector
//
// Functions whose names begin with Storage add the inputs of the volume plugins. They
// leave out most objects that would reject a node for other reasons:
//
//	nodes        zones za zb zc, sometimes under the labels of drivers and under the
//	             beta label; regions ra rb; disk ssd hdd
//	classes      np without a provisioner, dp and dz (with allowedTopologies) of d.csi,
//	             ebs in-tree, now Immediate, other; sometimes without a mode
//	drivers      d.csi, e.csi and the drivers for EBS and GCE, each with limits by node,
//	             in-tree plugins migrated or not
//	pools        (capacities) for a node, a zone, all nodes or none, with and without a
//	             maximum size
//	volumes      pv-0 to pv-15 of 0 to 10G: for a node, a zone, everywhere or nowhere;
//	             free, meant for a claim, bound, released
//	claims       claim-0 to claim-9 in two namespaces, and claims of ephemeral volumes:
//	             bound, to be bound, with a node selected
//	pods         with up to three volumes: claims, ephemeral ones, inline disks
//
// Functions whose names begin with Preemption make the nodes of either kind too small for
// their pods, and add the inputs of preemption:
//
//	priorities   the few of others, any from 0 to 199, and those around the ends of
//	             int32; pods that never preempt
//	pods         started in one of four minutes or not at all, being deleted for another
//	             pod or otherwise; sometimes without labels
//	budgets      up to six names in three namespaces, allowing 0 to 100 disruptions,
//	             some of them counted; selectors of all kinds, also absent, empty and
//	             invalid ones
//
// Names of storage objects are used again, as are handles; resource versions are not.
//
// Placed pods may be terminal (Succeeded, Failed), may carry a deletionTimestamp, may be
// on a node that is too small for them, and may outlive their node: when a node is
// removed its pods stay, and a node that is added later can have its name.
//
// Objects have the fields that the scheduler reads plus name, namespace, UID,
// resourceVersion and images. An API server would reject a few of them (weights of 0,
// empty required terms, duplicate host ports). They are included because the scheduler
// has defined behaviour for them.
package random

import (
	"math/rand/v2"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// New returns the source of randomness for a seed. The same seed gives the same sequence
// of objects.
func New(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }

// chance is true with a probability in percent.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// some keeps each element with a probability in percent, in order.
func some[T any](r *rand.Rand, percent int, from ...T) []T {
	var kept []T
	for _, v := range from {
		if chance(r, percent) {
			kept = append(kept, v)
		}
	}
	return kept
}

func ptr[T any](v T) *T { return &v }

// epoch is the time in every object.
var epoch = metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
