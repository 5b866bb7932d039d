package model

// OneOf returns a label and the values that it may have on selected nodes. ok is false
// unless the selector is a single term about label values. If the term has several
// labels, the first is returned.
func (s *NodeSelector) OneOf() (zone Zone, ok bool) {
	if s == nil || len(s.required) == 0 {
		return zone, false
	}
	return s.required[0], true
}
