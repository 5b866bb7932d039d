package app

import (
	"errors"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/outside/clients"
	"github.com/berth-scheduler/berth/internal/plugin"
)

// host runs the plugins from outside of all profiles.
type host struct{ clients *clients.Clients }

func newHost(shared *clients.Clients) *host { return &host{shared} }

// Profile returns what runs the plugins of a profile.
func (h *host) Profile(name string) (config.HostedProfile, error) {
	return &hosted{handle{profile: name, clients: h.clients, recorder: h.clients.Recorder(name)}}, nil
}

// close ends what runs plugins.
func (h *host) close() {}

// hosted is what runs the plugins of one profile.
type hosted struct{ handle handle }

func (h *hosted) Handle() fwk.Handle { return h.handle }

func (h *hosted) Adapt(config.Order) (config.Adapters, error) {
	return config.Adapters{}, errors.New("this version of Berth does not run plugins from outside")
}

func (h *hosted) Complete(*plugin.Profile) {}

// handle is what factories reach the API server with.
type handle struct {
	fwk.Handle
	profile  string
	clients  *clients.Clients
	recorder events.EventRecorderLogger
}

func (h handle) ProfileName() string                                    { return h.profile }
func (h handle) ClientSet() kubernetes.Interface                        { return h.clients.ClientSet }
func (h handle) KubeConfig() *rest.Config                               { return rest.CopyConfig(h.clients.KubeConfig) }
func (h handle) EventRecorder() events.EventRecorderLogger              { return h.recorder }
func (h handle) SharedInformerFactory() informers.SharedInformerFactory { return h.clients.Informers }
