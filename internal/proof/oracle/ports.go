package oracle

import v1 "k8s.io/api/core/v1"

const anyIP = "0.0.0.0"

// hostPort is a container's port on the node. IPs are compared as text: "::" is not a
// wildcard.
type hostPort struct {
	ip       string
	protocol v1.Protocol
	port     int32
}

// nodePortsFilter rejects a node with a pod that uses a requested port. A pod's own ports
// never conflict with each other.
func nodePortsFilter(cy *cycle, n node) *Rejection {
	for _, wanted := range hostPorts(cy.pod) {
		for _, p := range n.pods {
			for _, used := range hostPorts(p) {
				if portsConflict(wanted, used) {
					return &Rejection{Reasons: []string{"node(s) didn't have free ports for the requested pod ports"}}
				}
			}
		}
	}
	return nil
}

func portsConflict(a, b hostPort) bool {
	sameIP := a.ip == b.ip || a.ip == anyIP || b.ip == anyIP
	return sameIP && a.protocol == b.protocol && a.port == b.port
}

// hostPorts leaves out ordinary init containers: they end before the pod's containers
// start.
func hostPorts(p *v1.Pod) []hostPort {
	var ports []hostPort
	for _, c := range p.Spec.InitContainers {
		if restartable(c) {
			ports = append(ports, containerHostPorts(c)...)
		}
	}
	for _, c := range p.Spec.Containers {
		ports = append(ports, containerHostPorts(c)...)
	}
	return ports
}

func containerHostPorts(c v1.Container) []hostPort {
	var ports []hostPort
	for _, p := range c.Ports {
		if p.HostPort <= 0 {
			continue
		}
		hp := hostPort{ip: p.HostIP, protocol: p.Protocol, port: p.HostPort}
		if hp.ip == "" {
			hp.ip = anyIP
		}
		if hp.protocol == "" {
			hp.protocol = v1.ProtocolTCP
		}
		ports = append(ports, hp)
	}
	return ports
}
