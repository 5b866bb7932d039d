// Package capacity counts what nodes have, what pods request of it, and what is free.
//
// It takes the nodes, pods and devices of a cluster, and a key that puts nodes into
// groups. It returns one Group for each value of the key. It owns nothing. It makes no
// decision: taints, affinity and volumes may keep a pod from free capacity.
package capacity
