package preflight

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/internal/cluster/kinds"
	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/model"
)

// right is an access right that the scheduler needs. A subresource follows a slash.
type right struct {
	group, resource string
	// namespace and name restrict the right; empty means all.
	namespace, name string
	verbs           []string
	// without describes the effect of a missing right. If it is set, a missing right is a
	// warning; otherwise the check fails.
	without string
}

func (r right) String() string {
	text := r.resource
	if r.group != "" {
		text += "." + r.group
	}
	if r.name != "" {
		text += " " + r.name
	}
	if r.namespace != "" {
		text += " in " + r.namespace
	}
	return text
}

// needed returns the rights that a scheduler with this configuration needs: to watch the
// kinds that its plugins read, and to write its decisions.
func needed(c *config.Config) []right {
	reads := c.Reads()
	var all []right
	for _, kind := range reads {
		resource := kinds.Get(kind).Resource
		all = append(all, right{group: resource.Group, resource: resource.Resource, verbs: []string{"list", "watch"}})
	}
	all = append(all,
		right{resource: "pods", verbs: []string{"get"}},
		right{resource: "pods/binding", verbs: []string{"create"}},
		right{resource: "pods/status", verbs: []string{"patch"}},
		right{group: "events.k8s.io", resource: "events", verbs: []string{"create", "patch"}},
	)
	if slices.Contains(reads, model.PodDisruptionBudgetKind) {
		all = append(all, right{resource: "pods", verbs: []string{"delete"}})
	}
	if slices.Contains(reads, model.PersistentVolumeClaimKind) {
		all = append(all, right{resource: "persistentvolumeclaims", verbs: []string{"get", "patch"}}, right{resource: "persistentvolumes", verbs: []string{"get", "patch"}})
	}
	if c.ReadsDevices() {
		const group = "resource.k8s.io"
		all = append(all,
			right{group: group, resource: "resourceclaims", verbs: []string{"get", "create", "patch", "delete"}},
			right{group: group, resource: "resourceclaims/status", verbs: []string{"patch"}},
			right{group: group, resource: "resourceclaims/binding", verbs: []string{"patch"}},
		)
	}
	if c.Groups {
		all = append(all, right{group: "scheduling.k8s.io", resource: "podgroups/status", verbs: []string{"patch"}})
	}
	if election := c.Source.LeaderElection; ptr.Deref(election.LeaderElect, true) {
		const group = "coordination.k8s.io"
		all = append(all,
			right{group: group, resource: "leases", namespace: election.ResourceNamespace, verbs: []string{"create"}},
			right{group: group, resource: "leases", namespace: election.ResourceNamespace, name: election.ResourceName, verbs: []string{"get", "update"}},
		)
	}
	const unauthenticated = "requests to the scheduler's port for metrics and health are refused, but for /healthz, /livez and /readyz"
	return append(all,
		right{group: "authentication.k8s.io", resource: "tokenreviews", verbs: []string{"create"}, without: unauthenticated},
		right{group: "authorization.k8s.io", resource: "subjectaccessreviews", verbs: []string{"create"}, without: unauthenticated},
		right{resource: "configmaps", namespace: metav1.NamespaceSystem, name: "extension-apiserver-authentication", verbs: []string{"get", "list", "watch"},
			without: "client certificates of requests to the scheduler's port are not known"},
	)
}

// rights checks each right with an access review, and returns one row for each resource.
func rights(ctx context.Context, client kubernetes.Interface, r *Request) ([]Row, error) {
	all := needed(r.Scheduler)
	type question struct{ at, verb int }
	var questions []question
	for i := range all {
		for j := range all[i].verbs {
			questions = append(questions, question{i, j})
		}
	}
	allowed, errs := make([]bool, len(questions)), make([]error, len(questions))
	const inFlight = 8
	var wg sync.WaitGroup
	slots := make(chan struct{}, inFlight)
	for i, q := range questions {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			allowed[i], errs[i] = review(ctx, client, r.Of, all[q.at], all[q.at].verbs[q.verb])
		})
	}
	wg.Wait()
	missing := make([][]string, len(all))
	for i, q := range questions {
		switch {
		case apierrors.IsForbidden(errs[i]):
			return []Row{{"rights", Fail, fmt.Sprintf("you may not check the permissions of %s: %v", who(r.Of), errs[i]),
				"run it as somebody who may create subjectaccessreviews.authorization.k8s.io, or with the kubeconfig of the scheduler and without --as"}}, nil
		case errs[i] != nil:
			return nil, fmt.Errorf("check whether %s may %s %s: %w", who(r.Of), all[q.at].verbs[q.verb], all[q.at], errs[i])
		case !allowed[i]:
			missing[q.at] = append(missing[q.at], all[q.at].verbs[q.verb])
		}
	}
	var rows []Row
	for i := range all {
		rows = append(rows, rowOf(&all[i], missing[i], r.Of))
	}
	return rows, nil
}

func rowOf(of *right, missing []string, subject Subject) Row {
	row := Row{"rights", Pass, fmt.Sprintf("%s may %s %s", who(subject), strings.Join(of.verbs, ", "), of), ""}
	if len(missing) == 0 {
		return row
	}
	row.Status, row.Message = Fail, fmt.Sprintf("%s may not %s %s", who(subject), strings.Join(missing, ", "), of)
	row.Do = "grant it, or bind the ClusterRoles system:kube-scheduler and system:volume-scheduler (docs/migrate.md)"
	if subject.Name == "" {
		row.Do = "run it with the kubeconfig of the scheduler, or with --as system:kube-scheduler or the scheduler's service account; if that is what you did, grant it"
	}
	if of.without != "" {
		row.Status, row.Message = Warn, row.Message+": "+of.without
	}
	return row
}

func who(s Subject) string {
	if s.Name == "" {
		return "the user"
	}
	return s.Name
}

// review returns whether a subject, or the user, has a right.
func review(ctx context.Context, client kubernetes.Interface, of Subject, r right, verb string) (bool, error) {
	resource, subresource, _ := strings.Cut(r.resource, "/")
	attributes := &authorizationv1.ResourceAttributes{Group: r.group, Resource: resource, Subresource: subresource, Namespace: r.namespace, Name: r.name, Verb: verb}
	if of.Name == "" {
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return answer.Status.Allowed, nil
	}
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: of.Name, Groups: groupsOf(of), ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

// groupsOf returns the groups of a subject, with the groups that the API server adds for
// every user and every service account.
func groupsOf(of Subject) []string {
	groups := append(slices.Clone(of.Groups), "system:authenticated")
	if namespace, _, err := serviceaccount.SplitUsername(of.Name); err == nil {
		groups = append(groups, serviceaccount.MakeGroupNames(namespace)...)
	}
	return groups
}
