package neighbours

import "testing"

// TestNeighbours plays each neighbour's scenes with kube-scheduler and with Berth.
func TestNeighbours(t *testing.T) {
	t.Run("descheduler", besideBoth(descheduler))
	t.Run("kueue", besideBoth(kueue))
	t.Run("karpenter", besideBoth(karpenter))
}
