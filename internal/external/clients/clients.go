// Package clients provides API clients to out-of-tree plugins.
//
// It takes a client configuration and the informers of the scheduler's watches. It
// returns a client, informer factories and event recorders, which Handles pass on. It
// owns the informers that plugins request and the goroutines that write events.
package clients

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/kit/quietlog"
)

// Clients is shared by the plugins of all profiles. It is safe for concurrent use until
// Stop.
type Clients struct {
	// ClientSet is the client for built-in kinds.
	ClientSet kubernetes.Interface
	// KubeConfig is the configuration from which plugins build their own clients. They
	// get copies.
	KubeConfig *rest.Config
	// Informers are those of the scheduler's own watches, and of each further kind that a
	// plugin requests.
	Informers informers.SharedInformerFactory
	// Dynamic has the informers of kinds without a Go type.
	Dynamic dynamicinformer.DynamicSharedInformerFactory

	log         klog.Logger
	flush       func() // logs how many messages were suppressed
	broadcaster events.EventBroadcaster
	recording   context.CancelFunc
	stop        sync.Once
}

// New returns clients that use a configuration, and informers that others may use, too.
// It starts to record events, so Stop must be called. Nothing else is sent before Start,
// or before a plugin sends it.
func New(ctx context.Context, access *rest.Config, clientSet kubernetes.Interface, factory informers.SharedInformerFactory) (*Clients, error) {
	unknown, err := dynamic.NewForConfig(access)
	if err != nil {
		return nil, fmt.Errorf("build a client for kinds known by name: %w", err)
	}
	// Each informer logs its own errors while the API server is unreachable.
	log, flush := quietlog.Logger(klog.FromContext(ctx))
	c := &Clients{
		ClientSet:   clientSet,
		KubeConfig:  rest.CopyConfig(access),
		Informers:   factory,
		Dynamic:     dynamicinformer.NewDynamicSharedInformerFactory(unknown, 0),
		log:         log,
		flush:       flush,
		broadcaster: events.NewBroadcaster(&events.EventSinkImpl{Interface: clientSet.EventsV1()}),
	}
	// The last events are written while the scheduler stops, so this does not end with
	// ctx.
	recording, cancel := context.WithCancel(klog.NewContext(context.WithoutCancel(ctx), log))
	c.recording = cancel
	if err := c.broadcaster.StartRecordingToSinkWithContext(recording); err != nil {
		c.Stop()
		return nil, fmt.Errorf("begin to record the events of plugins: %w", err)
	}
	return c, nil
}

// Recorder returns the recorder of a profile, which is the controller of its events. It
// does not block, and drops events when more than 1,000 wait to be sent.
func (c *Clients) Recorder(profile string) events.EventRecorderLogger {
	return c.broadcaster.NewRecorder(scheme.Scheme, profile).WithLogger(c.log)
}

// Start starts the requested informers that are not started yet. They end with the
// context; Stop waits for them.
func (c *Clients) Start(ctx context.Context) {
	c.Informers.StartWithContext(klog.NewContext(ctx, c.log))
	c.Dynamic.Start(ctx.Done())
}

// Sync waits until the started informers hold their first lists. A plugin's handler may
// still be processing them. If the API server does not serve devices (resource.k8s.io),
// Sync does not wait for them, as the scheduler's own watch does not. Their informers
// stay empty until it does.
func (c *Clients) Sync(ctx context.Context) error {
	served := map[any]bool{} // results of serves
	var awaited any
	err := wait.PollUntilContextCancel(ctx, syncPause, true, func(context.Context) (bool, error) {
		for kind, synced := range c.synced() {
			if synced {
				continue
			}
			if _, asked := served[kind]; !asked {
				served[kind] = c.serves(kind)
			}
			if served[kind] {
				awaited = kind
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the first list of %v for plugins: %w", awaited, causeOf(ctx))
	}
	return nil
}

// syncPause is the time between two looks at informers.
const syncPause = 50 * time.Millisecond

// synced reports for each started informer, by the type or the resource of its objects,
// whether it holds its first list.
func (c *Clients) synced() map[any]bool {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	all := map[any]bool{}
	for kind, synced := range c.Informers.WaitForCacheSyncWithContext(now).Synced {
		all[kind] = synced
	}
	for resource, synced := range c.Dynamic.WaitForCacheSync(now.Done()) {
		all[resource] = synced
	}
	return all
}

// serves reports whether the API server serves a kind. Only device kinds may be missing.
// If discovery fails, it returns true.
func (c *Clients) serves(kind any) bool {
	var version schema.GroupVersion
	var is func(metav1.APIResource) bool
	switch kind := kind.(type) {
	case schema.GroupVersionResource:
		version, is = kind.GroupVersion(), func(r metav1.APIResource) bool { return r.Name == kind.Resource }
	case reflect.Type:
		object, ok := reflect.New(kind.Elem()).Interface().(runtime.Object)
		if !ok {
			return true
		}
		named, _, err := scheme.Scheme.ObjectKinds(object)
		if err != nil {
			return true
		}
		version, is = named[0].GroupVersion(), func(r metav1.APIResource) bool { return r.Kind == named[0].Kind }
	}
	if version.Group != resourcev1.GroupName {
		return true
	}
	list, err := c.ClientSet.Discovery().ServerResourcesForGroupVersion(version.String())
	switch {
	case err == nil && slices.ContainsFunc(list.APIResources, is):
		return true
	case err != nil && !apierrors.IsNotFound(err):
		c.log.Error(err, "API discovery failed, assuming that the API server serves devices", "groupVersion", version)
		return true
	}
	c.log.Info("The API server does not serve devices that a plugin watches, not waiting for them", "groupVersion", version, "kind", fmt.Sprint(kind))
	return false
}

// causeOf returns why a wait ended.
func causeOf(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return errors.New("the informer has ended")
}

// patience limits how long Stop waits for informers, because a plugin may have started
// some without an end.
const patience = 2 * time.Second

// Stop ends the recording of events and waits for the informers, whose context must have
// ended before.
func (c *Clients) Stop() {
	c.stop.Do(func() {
		c.broadcaster.Shutdown()
		c.recording()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Informers.Shutdown()
			c.Dynamic.Shutdown()
		}()
		select {
		case <-ended:
		case <-time.After(patience):
			c.log.Info("Informers of plugins have not ended: the API server is unreachable, or a plugin has started them without the scheduler's context", "after", patience)
		}
		c.flush()
	})
}
