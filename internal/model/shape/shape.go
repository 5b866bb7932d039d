// Package shape rates a utilization by the shape that a configuration gives: points between which the score changes linearly.
//
// It takes the points of a plugin's arguments; it gives the errors in them, and the score of every whole percentage. It owns nothing.
package shape

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

const (
	maxUtilization = 100
	maxScore       = 10
	// scale is what a score of the configuration is multiplied by to get that of a node, 0 to 100.
	scale = 10
)

// Check reports the first point that is out of order and every number that is out of range; or that there is no point.
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

// Ratings is a shape evaluated at every whole percentage.
type Ratings [maxUtilization + 1]int8

// Rate interpolates linearly between the points, in integers: division truncates toward zero, so falling lines round up. Left and right of the
// points the line is level. There must be a point.
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

// At returns the rating of a percentage, 0 to 100. One outside the range comes from overflowing amounts; it gets the rating of the nearest end, as
// on the level parts of a shape.
func (r *Ratings) At(percent int64) int64 {
	return int64(r[min(max(percent, 0), maxUtilization)])
}
