package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// UndecidedAnnotation of the lease lists pods whose decision did not end: pods during
// whose decision a process stopped, and the pod whose decision currently takes long. A
// new leader reads it, since nothing in memory survives. It has UIDs, separated by
// commas.
const UndecidedAnnotation = "scheduler.berth.dev/undecided-pods"

// maxUndecided limits the pods in the annotation; the oldest are dropped.
const maxUndecided = 32

// noted is a client for leases that remembers the annotation it last read. The elector
// reads a lease before acquiring it, so a new leader needs no request for the annotation.
type noted struct {
	coordination.CoordinationV1Interface
	last *lastNote
	self string // this replica, as a holder
}

type lastNote struct {
	mu     sync.Mutex
	text   string
	holder string // of the lease, then
}

func (n noted) Leases(namespace string) coordination.LeaseInterface {
	return notedLeases{n.CoordinationV1Interface.Leases(namespace), n.last, n.self}
}

type notedLeases struct {
	coordination.LeaseInterface
	last *lastNote
	self string
}

// Get reads the lease.
func (l notedLeases) Get(ctx context.Context, name string, o metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease, err := l.LeaseInterface.Get(ctx, name, o)
	if err == nil {
		l.last.mu.Lock()
		defer l.last.mu.Unlock()
		l.last.text = lease.Annotations[UndecidedAnnotation]
		if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != l.self {
			l.last.holder = holder
		}
	}
	return lease, err
}

// Undecided returns the pods in the annotation that was last read, the oldest first.
func (e *Election) Undecided() []types.UID {
	e.noted.mu.Lock()
	defer e.noted.mu.Unlock()
	var uids []types.UID
	for text := range strings.SplitSeq(e.noted.text, ",") {
		if text != "" && len(uids) < maxUndecided {
			uids = append(uids, types.UID(text))
		}
	}
	return uids
}

// TookOver reports whether the former holder did not release the lease. It may have died,
// or lost the API server.
func (e *Election) TookOver() bool {
	e.noted.mu.Lock()
	defer e.noted.mu.Unlock()
	return e.noted.holder != ""
}

// NoteUndecided stores the undecided pods in the lease, while this replica holds it. If
// it collides with a renewal, the API server rejects one of the two, which is sent again.
func (e *Election) NoteUndecided(ctx context.Context, uids []types.UID) error {
	if over := len(uids) - maxUndecided; over > 0 {
		uids = uids[over:]
	}
	texts := make([]string, len(uids))
	for i, uid := range uids {
		texts[i] = string(uid)
	}
	text := strings.Join(texts, ",")
	for {
		err := e.annotate(ctx, text)
		if err == nil || !apierrors.IsConflict(err) || ctx.Err() != nil {
			return err
		}
	}
}

// annotate reads the lease and stores it with the annotation.
func (e *Election) annotate(ctx context.Context, text string) error {
	lease, err := e.leases.Get(ctx, e.rules.ResourceName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the lease to note undecided pods: %w", err)
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != e.lock.Identity() {
		return fmt.Errorf("note undecided pods in the lease: %w", ErrLost)
	}
	if lease.Annotations[UndecidedAnnotation] == text {
		return nil
	}
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	lease.Annotations[UndecidedAnnotation] = text
	if text == "" {
		delete(lease.Annotations, UndecidedAnnotation)
	}
	if _, err = e.leases.Update(ctx, lease, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("note undecided pods in the lease: %w", err)
	}
	return nil
}
