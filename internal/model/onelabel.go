package model

// OneOf returns a label and the values of which every selected node has one, if the selector is a single term about values of labels; of several labels
// it is the first.
func (s *NodeSelector) OneOf() (zone Zone, ok bool) {
	if s == nil || len(s.required) == 0 {
		return zone, false
	}
	return s.required[0], true
}
