package oracle

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/proof/build"
)

const (
	zone = v1.LabelTopologyZone
	host = v1.LabelHostname
)

type (
	constraintPart = build.ConstraintOption
	termPart       = build.TermOption
)

var (
	zoned = build.NodesInZones
	with  = build.With

	fill    = build.PodsOnNodes
	wearing = build.Labels
	in      = build.InNamespace
	ending  = build.Terminating
	ownedBy = build.Controller

	hard           = build.DoNotSchedule
	soft           = build.ScheduleAnyway
	skew           = build.MaxSkew
	domains        = build.MinDomains
	affinityPolicy = build.NodeAffinityPolicy
	taintsPolicy   = build.NodeTaintsPolicy
	matchKeys      = build.MatchLabelKeys

	// near and apart are required terms, likes and dislikes preferred terms.
	near     = build.RequiredAffinity
	apart    = build.RequiredAntiAffinity
	likes    = build.PreferredAffinity
	dislikes = build.PreferredAntiAffinity

	term           = build.Term
	inNamespaces   = build.Namespaces
	whereNamespace = build.NamespaceSelector

	namespace = build.Namespace
	labelsOf  = build.LabelSet
	choose    = build.Selector
)

// service selects by labels like "app=x"; a nil selector means a service without
// selector.
func service(selector map[string]string) *v1.Service { return build.Service("", selector) }

// inShort is the verdict on each node, with a word for each reason of the topology and
// the volume plugins.
func inShort(a Judgment) string {
	var words []string
	for _, n := range a.Nodes {
		words = append(words, word(n.Rejections))
	}
	return strings.Join(words, " ")
}

func word(rejections []Rejection) string {
	text := verdict(NodeJudgment{Rejections: rejections})
	for long, short := range map[string]string{
		"U node(s) didn't match pod topology spread constraints":                                                             "skew",
		"UU node(s) didn't match pod topology spread constraints (missing required label)":                                   "label",
		"UU node(s) didn't match pod affinity rules":                                                                         "affinity",
		"U node(s) didn't match pod anti-affinity rules":                                                                     "anti",
		"U node(s) didn't satisfy existing pods anti-affinity rules":                                                         "existing",
		"UU node(s) had untolerated taint(s)":                                                                                "taint",
		"UU node(s) didn't match Pod's node affinity/selector":                                                               "selector",
		"UU node(s) were unschedulable":                                                                                      "cordoned",
		"U node(s) had no available disk":                                                                                    "disk",
		"U node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod": "rwop",
		"U node(s) exceed max volume count":                                                                                  "count",
		"U d CSI driver is not installed on the node":                                                                        "driver",
		"UU " + volumeElsewhere:                                                                                              "elsewhere",
		"UU " + noVolumeToBind:                                                                                               "conflict",
		"UU " + noFreeStorage:                                                                                                "storage",
		"UU " + volumeVanished:                                                                                               "vanished",
		"UU node(s) had no available volume zone":                                                                            "zone",
	} {
		if text == long {
			return short
		}
	}
	return text
}

// marks is a plugin's raw and normalised scores: "13 12 6 -> 46 53 100", or "skip".
func marks(a Judgment, plugin string) string {
	if a.Err != nil {
		return a.Err.Error()
	}
	raw, normalised := scored(a, plugin)
	if raw == nil {
		return "skip"
	}
	return fmt.Sprint(strings.Trim(fmt.Sprint(raw), "[]"), " -> ", strings.Trim(fmt.Sprint(normalised), "[]"))
}
