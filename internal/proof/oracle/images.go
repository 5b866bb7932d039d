package oracle

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
)

const (
	imageFloor   = 23 << 20   // bytes; a smaller total counts as nothing
	imageCeiling = 1000 << 20 // bytes per image; a larger sum counts no further
)

// imageLocalityScore prefers nodes that already have large images of the pod. Sizes are
// scaled by the number of nodes with the image, so that a node does not attract all pods.
func imageLocalityScore(cy *cycle) (scores, error) {
	images := podImages(cy.pod)
	raw := make([]int64, len(cy.feasible))
	for i, n := range cy.feasible {
		var present int64
		for _, image := range images {
			if holds(n, image) {
				size, holders := imageState(cy.nodes, image)
				present += int64(float64(size) * (float64(holders) / float64(len(cy.nodes))))
			}
		}
		raw[i] = imageScore(present, int64(len(images)))
	}
	return asTheyAre(raw), nil
}

func imageScore(present, images int64) int64 {
	lo, hi := int64(imageFloor), imageCeiling*images
	if present < lo {
		present = lo
	} else if present > hi {
		present = hi
	}
	return maxScore * (present - lo) / (hi - lo)
}

// podImages lists one entry per init container, container and image volume, duplicates
// included.
func podImages(p *v1.Pod) []string {
	var images []string
	for _, c := range p.Spec.InitContainers {
		images = append(images, withTag(c.Image))
	}
	for _, c := range p.Spec.Containers {
		images = append(images, withTag(c.Image))
	}
	for _, v := range p.Spec.Volumes {
		if v.Image != nil {
			images = append(images, withTag(v.Image.Reference))
		}
	}
	return images
}

// withTag adds ":latest" to a reference with neither tag nor digest. A colon before the
// last slash belongs to a registry's port.
func withTag(image string) string {
	if strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") {
		return image + ":latest"
	}
	return image
}

func holds(n node, image string) bool {
	for _, i := range n.Status.Images {
		if slices.Contains(i.Names, image) {
			return true
		}
	}
	return false
}

// imageState is an image's size and the number of nodes that have it. Upstream keeps the
// size that any node recorded first. Here it is the size on the first node by name, since
// the oracle has no history. The two agree while an image has one size.
func imageState(nodes []node, image string) (size int64, holders int) {
	for _, n := range nodes {
		if !holds(n, image) {
			continue
		}
		if holders == 0 {
			size = sizeOn(n, image)
		}
		holders++
	}
	return size, holders
}

func sizeOn(n node, image string) int64 {
	for _, i := range n.Status.Images {
		if slices.Contains(i.Names, image) {
			return i.SizeBytes
		}
	}
	return 0
}
