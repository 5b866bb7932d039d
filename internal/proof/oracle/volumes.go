package oracle

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	csitranslation "k8s.io/csi-translation-lib"
)

// Shared code of the four volume plugins: the claims of pods, their classes, and in-tree
// volumes.

const (
	annBindCompleted     = "pv.kubernetes.io/bind-completed"
	annBoundByController = "pv.kubernetes.io/bound-by-controller"
	annSelectedNode      = "volume.kubernetes.io/selected-node"
	annBetaClass         = "volume.beta.kubernetes.io/storage-class"
	annMigratedPlugins   = "storage.alpha.kubernetes.io/migrated-plugins"
)

// translator maps in-tree plugins to CSI drivers. It has no state.
var translator = csitranslation.New()

// claimName is a claim that a volume of a pod uses, in the pod's namespace.
type claimName struct {
	name      string
	ephemeral bool // of a generic ephemeral volume
}

// claimOf is the claim that a volume of the pod uses, if any.
func claimOf(p *v1.Pod, v v1.Volume) (claimName, bool) {
	switch {
	case v.PersistentVolumeClaim != nil:
		return claimName{name: v.PersistentVolumeClaim.ClaimName}, true
	case v.Ephemeral != nil:
		return claimName{name: p.Name + "-" + v.Name, ephemeral: true}, true
	}
	return claimName{}, false
}

// claimNames are in the order of the pod's volumes, one for each volume that uses a
// claim.
func claimNames(p *v1.Pod) []claimName {
	var all []claimName
	for _, v := range p.Spec.Volumes {
		if c, ok := claimOf(p, v); ok {
			all = append(all, c)
		}
	}
	return all
}

// directClaims are the claims that the pod names itself.
func directClaims(p *v1.Pod) []string {
	var all []string
	for _, c := range claimNames(p) {
		if !c.ephemeral {
			all = append(all, c.name)
		}
	}
	return all
}

// claim finds a claim in the pod's namespace, or returns nil.
func (cy *cycle) claim(p *v1.Pod, name string) *v1.PersistentVolumeClaim {
	return named(cy.cluster.PersistentVolumeClaims, p.Namespace, name)
}

func (cy *cycle) volume(name string) *v1.PersistentVolume {
	return named(cy.cluster.PersistentVolumes, "", name)
}

func (cy *cycle) storageClass(name string) *storagev1.StorageClass {
	return named(cy.cluster.StorageClasses, "", name)
}

// csiNode is the CSINode of a node, or nil.
func (cy *cycle) csiNode(n node) *storagev1.CSINode { return named(cy.cluster.CSINodes, "", n.Name) }

// notOwned is the error of an ephemeral volume whose claim has another owner, or "".
func notOwned(p *v1.Pod, claim *v1.PersistentVolumeClaim) string {
	if owner := metav1.GetControllerOf(claim); owner != nil && owner.UID == p.UID {
		return ""
	}
	return fmt.Sprintf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace, claim.Name, p.Namespace, p.Name)
}

func classOfClaim(c *v1.PersistentVolumeClaim) string {
	if class, ok := c.Annotations[annBetaClass]; ok {
		return class
	}
	return valueOr(c.Spec.StorageClassName, "")
}

func classOfVolume(v *v1.PersistentVolume) string {
	if class, ok := v.Annotations[annBetaClass]; ok {
		return class
	}
	return v.Spec.StorageClassName
}

// isBound ignores phases.
func isBound(c *v1.PersistentVolumeClaim) bool {
	_, completed := c.Annotations[annBindCompleted]
	return c.Spec.VolumeName != "" && completed
}

// migratable reports whether the scheduler considers migration of an in-tree plugin to
// its CSI driver at all.
func migratable(inTree string) bool {
	return slices.Contains([]string{
		"kubernetes.io/aws-ebs", "kubernetes.io/gce-pd", "kubernetes.io/azure-disk", "kubernetes.io/cinder", "kubernetes.io/portworx-volume",
	}, inTree)
}

// migratedOn reports whether the node's CSINode lists the in-tree plugin as migrated.
func migratedOn(on *storagev1.CSINode, inTree string) bool {
	return on != nil && migratable(inTree) && slices.Contains(strings.Split(on.Annotations[annMigratedPlugins], ","), inTree)
}

// inTreePlugin is the name of a volume's in-tree plugin that has a CSI driver, or "".
func inTreePlugin(pv *v1.PersistentVolume, inline *v1.Volume) string {
	name, err := translator.GetInTreePluginNameFromSpec(pv, inline)
	if err != nil {
		return ""
	}
	return name
}

func missingClaim(name string) string {
	return fmt.Sprintf("persistentvolumeclaim %q not found", name)
}

func missingVolume(name string) string { return fmt.Sprintf("persistentvolume %q not found", name) }

func missingClass(name string) string {
	return fmt.Sprintf("storageclass.storage.k8s.io %q not found", name)
}

func unresolvable(reasons ...string) *Rejection {
	return &Rejection{Unresolvable: true, Reasons: reasons}
}

func valueOr[T any](pointer *T, otherwise T) T {
	if pointer == nil {
		return otherwise
	}
	return *pointer
}
