package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/decide/plugins/nodedeclaredfeatures"
	"github.com/berth-scheduler/berth/internal/model"
)

// upgrade lists the objects that are scheduled differently in the release of --to, and
// the flags that kube-scheduler of that release refuses.
func upgrade(r *Request) []Row {
	if r.To == 0 {
		return nil
	}
	check := "to " + r.To.String()
	var rows []Row
	if r.Cluster == nil {
		rows = append(rows, Row{check, Fail, "the affected objects are unknown, because the cluster was not read", "see the rows above"})
	}
	for _, rule := range config.Rules() {
		if r.Cluster == nil {
			break
		}
		objects := affected(r, rule.Name)
		if rule.Since > r.To || rule.Since <= config.Release37 || len(objects) == 0 {
			continue
		}
		rows = append(rows, Row{check, Warn, fmt.Sprintf("%s: %d affected: %s: in %v, %s", rule.Name, len(objects), some(objects), rule.Since, plain(rule.After)),
			fmt.Sprintf("compare: berth compare --release %v --release %v", rule.Since-1, r.To)})
	}
	if r.To >= config.Release38 {
		rows = append(rows, removedGates(check, r)...)
	}
	if rows == nil {
		rows = []Row{{check, Pass, "no object has another answer, and no gate is removed, in kube-scheduler " + r.To.String(), ""}}
	}
	return rows
}

// plain drops the code marks of a page.
func plain(text string) string { return strings.ReplaceAll(text, "`", "") }

// affected returns the objects that a rule concerns. It returns none for victimsByUID,
// whose pods are known only when a pod preempts.
func affected(r *Request, rule string) []string {
	switch rule {
	case "nodesWithoutVictims":
		return preemptingExtenders(r)
	case "budgetEmptySelector":
		return namesOf(budgetsWhere(r, func(s *metav1.LabelSelector) bool { return isEmpty(s) }))
	case "budgetUnlabelledPods":
		return podsWhere(r, func(pod *v1.Pod) bool {
			return pod.Spec.NodeName != "" && len(pod.Labels) == 0 && slices.ContainsFunc(r.Cluster.PodDisruptionBudgets, func(b *policyv1.PodDisruptionBudget) bool {
				selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
				return err == nil && b.Namespace == pod.Namespace && selector.Matches(nil)
			})
		})
	case "spreadEmptySelector":
		return podsWhere(r, func(pod *v1.Pod) bool {
			return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
				return isEmpty(c.LabelSelector) && !slices.ContainsFunc(c.MatchLabelKeys, func(key string) bool { _, ok := pod.Labels[key]; return ok })
			})
		})
	case "scorePodLevelRequests":
		return podsWhere(r, func(pod *v1.Pod) bool { return pod.Spec.Resources != nil && len(pod.Spec.Resources.Requests) > 0 })
	case "declaredFeatures38":
		before, after := nodedeclaredfeatures.New(), nodedeclaredfeatures.New38()
		return podsWhere(r, func(pod *v1.Pod) bool {
			compiled := model.NewPod(pod)
			return after.Requires(compiled) != before.Requires(compiled)
		})
	}
	return nil
}

func isEmpty(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// podsWhere returns the pods that have not ended and for which is returns true.
func podsWhere(r *Request, is func(*v1.Pod) bool) (names []string) {
	if r.Cluster == nil {
		return nil
	}
	for _, pod := range r.Cluster.Pods {
		if pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed && is(pod) {
			names = append(names, "pod "+pod.Namespace+"/"+pod.Name)
		}
	}
	return names
}

func budgetsWhere(r *Request, is func(*metav1.LabelSelector) bool) (budgets []*policyv1.PodDisruptionBudget) {
	if r.Cluster == nil {
		return nil
	}
	for _, b := range r.Cluster.PodDisruptionBudgets {
		if is(b.Spec.Selector) {
			budgets = append(budgets, b)
		}
	}
	return budgets
}

func namesOf(budgets []*policyv1.PodDisruptionBudget) (names []string) {
	for _, b := range budgets {
		names = append(names, "poddisruptionbudget "+b.Namespace+"/"+b.Name)
	}
	return names
}

// preemptingExtenders returns the extenders that may choose victims.
func preemptingExtenders(r *Request) (names []string) {
	if r.Scheduler == nil {
		return nil
	}
	shown := r.Scheduler.Shown().Extenders
	for i := range r.Scheduler.Source.Extenders {
		if r.Scheduler.Source.Extenders[i].PreemptVerb != "" {
			names = append(names, "extender "+shown[i].URLPrefix)
		}
	}
	return names
}

// removedGates lists the given gates, and those of the present scheduler's pods, that
// 1.38 has removed. kube-scheduler does not start with such a gate.
func removedGates(check string, r *Request) []Row {
	given := map[string]bool{}
	for name := range r.Gates {
		given[strings.TrimPrefix(name, "kube:")] = true
	}
	maps.Copy(given, r.present)
	var rows []Row
	for _, name := range removedIn38() {
		if given[name] {
			rows = append(rows, Row{check, Warn, "the feature gate " + name + " does not exist in 1.38: kube-scheduler 1.38 refuses it at its start", "remove it from --feature-gates before the upgrade"})
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Message, b.Message) })
	return rows
}

// removedIn38 are the gates of 1.37 that 1.38.0-beta.0 lacks.
func removedIn38() []string {
	return []string{
		"AggregatedDiscoveryRemoveBetaType", "AllowOverwriteTerminationGracePeriodSeconds", "DisableAllocatorDualWrite", "DynamicResourceAllocation",
		"ExecProbeTimeout", "InPlacePodVerticalScaling", "JobManagedBy", "KubeletTracing", "MatchLabelKeysInPodAffinity", "MultiCIDRServiceAllocator",
		"NFTablesProxyMode", "NodeSwap", "PodGroupPreemptionPolicy", "PodSchedulingReadiness", "PreferSameTrafficDistribution",
		"RecoverVolumeExpansionFailure", "SeparateTaintEvictionController", "ServiceAccountTokenJTI", "ServiceAccountTokenNodeBinding",
		"ServiceAccountTokenNodeBindingValidation", "ServiceAccountTokenPodNodeInfo", "SupplementalGroupsPolicy", "WinDSR", "WinOverlay", "WindowsHostNetwork",
	}
}
