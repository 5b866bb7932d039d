package engine_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/internal/proof/enginetest"
	"github.com/berth-scheduler/berth/internal/proof/oracle"
	"github.com/berth-scheduler/berth/internal/proof/oracle/random"
)

// TestEngineAgreesWithOracleOnHugeAmounts is a property test with requests, sums of
// requests and nodes of about 2^63, and beyond. Pods come and go, and some are evicted.
func TestEngineAgreesWithOracleOnHugeAmounts(t *testing.T) {
	random.EverySeed(t, "./internal/decide/engine", *seeds, *seed, func(t *testing.T, n uint64) {
		r := random.New(n + 99)
		cluster, profile := random.Cluster(r, random.Size{Nodes: 1 + r.IntN(12), Placed: r.IntN(40), Pending: 6}), random.Profile(r)
		random.WithHugeAmounts(r, &cluster)
		newPair(t, r, n, cluster, profile).Agree(t, r, 40, func(_ int, c oracle.Cluster) []*v1.Pod {
			var all []*v1.Pod
			for _, pod := range enginetest.Pending(c) {
				all = append(all, pod, random.HugePod(r, pod))
			}
			return all
		}, random.Change)
	})
}
