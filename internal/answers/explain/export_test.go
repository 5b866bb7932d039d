package explain

// DevicesLacking explains why the pod's claims have no devices on a node.
func (s *Snapshot) DevicesLacking(a *Explanation, name string) []string {
	slot, _ := s.state.Slot(name)
	return s.devicesLacking(a.pod, s.state.View().Node(slot))
}
