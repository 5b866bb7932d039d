// Package defaultbinder builds the Binding of a pod and decides about retries.
//
// It takes a pod, a node name and the API's errors. It returns the Binding and the delay
// before a retry. It owns nothing. It never sends, sleeps or adds jitter: package commit
// does.
package defaultbinder

import (
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/net"

	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// Name is the plugin's name in the configuration.
const Name = "DefaultBinder"

// Plugin is the Bind plugin. The zero value is ready.
type Plugin struct{}

// New returns the plugin.
func New() Plugin { return Plugin{} }

// Name returns the plugin's name in the configuration.
func (Plugin) Name() string { return Name }

// Parts returns the plugin's parts at the extension points.
func (p Plugin) Parts() *plugin.Parts {
	return plugin.New(plugin.Parts{
		Name: Name,
		Bind: &plugin.Bind{Binding: p.Binding, Tries: p.Tries(), Retry: p.Retry},
	})
}

const (
	tries      = 4
	firstWait  = 10 * time.Millisecond
	waitFactor = 5
)

// Binding returns the object to post to the pod's binding subresource. The UID makes the
// API server reject it if another pod has taken the name.
func (Plugin) Binding(pod *model.Pod, nodeName string) *v1.Binding {
	return &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     v1.ObjectReference{Kind: "Node", Name: nodeName},
	}
}

// Tries returns how often a binding is sent before its failure is final.
func (Plugin) Tries() int { return tries }

// Retry reports whether to send a binding again after try number try, counted from 1,
// failed with err, and the delay before: 10, 50 and 250 ms. Only errors of an overloaded
// or unreachable server are retried. After a conflict, a missing pod, a rate limit or a
// timeout, the pod returns to the queue at once.
func (Plugin) Retry(err error, try int) (wait time.Duration, again bool) {
	if try >= tries || !passing(err) {
		return 0, false
	}
	wait = firstWait
	for range try - 1 {
		wait *= waitFactor
	}
	return wait, true
}

func passing(err error) bool {
	return apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) || net.IsConnectionRefused(err)
}
