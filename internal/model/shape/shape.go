// Package shape converts a utilization to a score by the utilization shape in a plugin's
// arguments (UtilizationShapePoint). The score changes linearly between the points.
//
// It takes the points. It returns the errors in them, and the score of every whole
// percentage. It owns nothing, and never decides which resources count.
package shape

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

const (
	maxUtilization = 100
	maxScore       = 10
	// scale converts a score of the configuration, 0 to 10, to a node's score, 0 to 100.
	scale = 10
)

// Check returns the first point that is out of order and every number that is out of
// range. A list without points is an error too.
func Check(points []configv1.UtilizationShapePoint, path *field.Path) field.ErrorList {
	if len(points) == 0 {
		return field.ErrorList{field.Required(path, "at least one point must be specified")}
	}
	var errs field.ErrorList
	for i := 1; i < len(points); i++ {
		if points[i].Utilization <= points[i-1].Utilization {
			errs = append(errs, field.Invalid(path.Index(i).Child("utilization"), points[i].Utilization,
				"values must be sorted in increasing order"))
			break
		}
	}
	within := func(path *field.Path, value, limit int32) {
		if value < 0 || value > limit {
			errs = append(errs, field.Invalid(path, value, fmt.Sprintf("not in valid range [0, %d]", limit)))
		}
	}
	for i, point := range points {
		within(path.Index(i).Child("utilization"), point.Utilization, maxUtilization)
		within(path.Index(i).Child("score"), point.Score, maxScore)
	}
	return errs
}

// Ratings is a utilization shape evaluated at every whole percentage.
type Ratings [maxUtilization + 1]int8

// Rate interpolates linearly between the points, in integers. Division truncates toward
// zero, so falling lines round up. Left and right of the points the line is level. At
// least one point is required.
func Rate(points []configv1.UtilizationShapePoint) *Ratings {
	r := new(Ratings)
	for percent := range r {
		r[percent] = int8(follow(points, int64(percent)))
	}
	return r
}

func follow(points []configv1.UtilizationShapePoint, percent int64) int64 {
	for i, point := range points {
		right, end := int64(point.Utilization), int64(point.Score)*scale
		if percent > right {
			continue
		}
		if i == 0 {
			return end
		}
		left, start := int64(points[i-1].Utilization), int64(points[i-1].Score)*scale
		return start + (end-start)*(percent-left)/(right-left)
	}
	return int64(points[len(points)-1].Score) * scale
}

// At returns the rating of a percentage, 0 to 100. Overflowing amounts can give a
// percentage outside the range. Its rating is the one at the nearest end, as on the level
// parts of a utilization shape.
func (r *Ratings) At(percent int64) int64 {
	return int64(r[min(max(percent, 0), maxUtilization)])
}
