package shape_test

import (
	"testing"

	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model/shape"
)

func points(pairs ...int32) []configv1.UtilizationShapePoint {
	var all []configv1.UtilizationShapePoint
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, configv1.UtilizationShapePoint{Utilization: pairs[i], Score: pairs[i+1]})
	}
	return all
}

// The shapes of design/rules/resources.md#fit-score, point by point.
func TestShape(t *testing.T) {
	for _, row := range []struct {
		points  []configv1.UtilizationShapePoint
		percent int64
		want    int64
	}{
		{points(0, 2, 40, 10, 100, 0), 30, 80}, {points(0, 2, 40, 10, 100, 0), 75, 42}, {points(0, 2, 40, 10, 100, 0), 40, 100},
		{points(10, 1, 90, 9), 5, 10}, {points(10, 1, 90, 9), 10, 10}, {points(10, 1, 90, 9), 100, 90},
		{points(0, 10, 100, 3), 33, 77}, {points(0, 10, 100, 3), 100, 30},
		{points(0, 10, 100, 0), 0, 100}, {points(0, 10, 100, 0), 100, 0},
	} {
		ratings := shape.Rate(row.points)
		if got := ratings.At(row.percent); got != row.want {
			t.Errorf("%v at %d%% is %d, want %d", row.points, row.percent, got, row.want)
		}
	}
}
