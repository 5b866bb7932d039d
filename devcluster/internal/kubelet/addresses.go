package kubelet

import (
	"fmt"
	"net/netip"

	v1 "k8s.io/api/core/v1"
)

// addresses assigns each pod an address of every pod range of its node. Nodes without a
// range share the common one. It is not safe for concurrent use.
type addresses struct {
	common string
	taken  map[netip.Addr]bool
	last   map[string]netip.Addr // by range: the last assigned address
}

// take assigns an address of every pod range of a node.
func (a *addresses) take(node *v1.Node) ([]v1.PodIP, error) {
	ranges := node.Spec.PodCIDRs
	if len(ranges) == 0 {
		ranges = []string{a.common}
	}
	var ips []v1.PodIP
	for _, cidr := range ranges {
		address, err := a.takeFrom(cidr)
		if err != nil {
			a.free(ips)
			return nil, fmt.Errorf("take an address for a pod of node %s: %w", node.Name, err)
		}
		ips = append(ips, v1.PodIP{IP: address.String()})
	}
	return ips, nil
}

// takeFrom assigns the next free address of a range. It starts after the last assigned
// address, so a freed address is not reused soon. The first address names the range and
// is never assigned.
func (a *addresses) takeFrom(cidr string) (netip.Addr, error) {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return netip.Addr{}, err
	}
	first := prefix.Masked().Addr()
	last, ok := a.last[cidr]
	if !ok {
		last = first
	}
	address := last
	for {
		address = address.Next()
		if !prefix.Contains(address) {
			address = first
		}
		if address != first && !a.taken[address] {
			a.taken[address], a.last[cidr] = true, address
			return address, nil
		}
		if address == last {
			return netip.Addr{}, fmt.Errorf("no address of %s is free", cidr)
		}
	}
}

// mark marks a pod's existing addresses as taken.
func (a *addresses) mark(ips []v1.PodIP) {
	for _, ip := range ips {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			a.taken[address] = true
		}
	}
}

// free frees addresses.
func (a *addresses) free(ips []v1.PodIP) {
	for _, ip := range ips {
		if address, err := netip.ParseAddr(ip.IP); err == nil {
			delete(a.taken, address)
		}
	}
}
