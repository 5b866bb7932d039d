package model

// IsZero reports whether all fixed amounts are 0 and no scalar is present.
func (r *Resources) IsZero() bool {
	return r.CPUMilli == 0 && r.MemoryBytes == 0 && r.EphemeralBytes == 0 && len(r.Scalars) == 0
}
