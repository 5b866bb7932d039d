package framework

import (
	"errors"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"
	listers "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
)

// SharedCSIManager returns the configured manager, or the CSINodes of the plugins' shared
// informers, which are watched from the first call on. A plugin that calls it in its
// factory has the first list before the first turn.
func (h *Handle) SharedCSIManager() fwk.CSIManager {
	if h.r.config.CSIManager != nil {
		return h.r.config.CSIManager
	}
	if h.r.config.Informers == nil {
		return csiNodes{}
	}
	nodes := h.r.config.Informers.Storage().V1().CSINodes()
	return csiNodes{nodes.Informer(), nodes.Lister()}
}

// csiNodes is a CSIManager and its lister. Before the first list it returns errors,
// because an empty answer would mean that nodes have no drivers.
type csiNodes struct {
	informer cache.SharedIndexInformer // nil without informers
	lister   listers.CSINodeLister
}

// CSINodes returns the lister.
func (c csiNodes) CSINodes() fwk.CSINodeLister { return c }

func (c csiNodes) ready() error {
	switch {
	case c.informer == nil:
		return errors.New("SharedCSIManager of the Handle has no CSINodes: there are no informers")
	case !c.informer.HasSynced():
		return errors.New("SharedCSIManager of the Handle has no CSINodes yet: call it when the plugin is made, so that they are listed before the first turn")
	}
	return nil
}

// List returns all CSINodes.
func (c csiNodes) List() ([]*storagev1.CSINode, error) {
	if err := c.ready(); err != nil {
		return nil, fmt.Errorf("list CSINodes: %w", err)
	}
	return c.lister.List(labels.Everything())
}

// Get returns the CSINode of a node. As in kube-scheduler, a missing CSINode is the API's
// NotFound error.
func (c csiNodes) Get(name string) (*storagev1.CSINode, error) {
	if err := c.ready(); err != nil {
		return nil, fmt.Errorf("get the CSINode %q: %w", name, err)
	}
	return c.lister.Get(name)
}
