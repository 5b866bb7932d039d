package noderesourcesfit

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model/shape"
)

// The upper bounds of arguments.
const (
	maxWeight      = 100
	maxUtilization = 100
)

var strategies = []configv1.ScoringStrategyType{
	configv1.LeastAllocated, configv1.MostAllocated, configv1.RequestedToCapacityRatio,
}

// check returns the arguments with defaults filled in, or all their errors.
func check(args *configv1.NodeResourcesFitArgs) (*configv1.NodeResourcesFitArgs, error) {
	checked := defaulted(args)
	var errs field.ErrorList
	errs = append(errs, checkIgnored(checked)...)
	errs = append(errs, checkStrategy(checked.ScoringStrategy, field.NewPath("scoringStrategy"))...)
	return checked, errs.ToAggregate()
}

// defaulted returns a copy with defaults. A strategy without a type stays without, so
// that it is rejected as in kube-scheduler.
func defaulted(args *configv1.NodeResourcesFitArgs) *configv1.NodeResourcesFitArgs {
	if args == nil {
		args = &configv1.NodeResourcesFitArgs{}
	}
	args = args.DeepCopy()
	if args.ScoringStrategy == nil {
		args.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
	}
	strategy := args.ScoringStrategy
	if len(strategy.Resources) == 0 {
		strategy.Resources = []configv1.ResourceSpec{{Name: "cpu"}, {Name: "memory"}}
	}
	for i := range strategy.Resources {
		if strategy.Resources[i].Weight == 0 {
			strategy.Resources[i].Weight = 1
		}
	}
	return args
}

func checkIgnored(args *configv1.NodeResourcesFitArgs) field.ErrorList {
	var errs field.ErrorList
	for i, name := range args.IgnoredResources {
		errs = append(errs, validation.ValidateLabelName(name, field.NewPath("ignoredResources").Index(i))...)
	}
	for i, group := range args.IgnoredResourceGroups {
		path := field.NewPath("ignoredResourceGroups").Index(i)
		if strings.Contains(group, "/") {
			errs = append(errs, field.Invalid(path, group, "resource group name can't contain '/'"))
		}
		errs = append(errs, validation.ValidateLabelName(group, path)...)
	}
	return errs
}

func checkStrategy(strategy *configv1.ScoringStrategy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !known(strategy.Type) {
		errs = append(errs, field.NotSupported(path.Child("type"), strategy.Type, strategies))
	}
	for i, r := range strategy.Resources {
		if r.Weight < 1 || r.Weight > maxWeight {
			errs = append(errs, field.Invalid(path.Child("resources").Index(i).Child("weight"), r.Weight,
				fmt.Sprintf("resource weight of %s not in valid range (0, %d]", r.Name, maxWeight)))
		}
	}
	ratioPath, ratio := path.Child("requestedToCapacityRatio"), strategy.RequestedToCapacityRatio
	switch wanted := strategy.Type == configv1.RequestedToCapacityRatio; {
	case wanted && ratio == nil:
		errs = append(errs, field.Required(ratioPath, "must be specified when type is RequestedToCapacityRatio"))
	case wanted:
		errs = append(errs, shape.Check(ratio.Shape, ratioPath.Child("shape"))...)
	case ratio != nil:
		errs = append(errs, field.Forbidden(ratioPath, "must be nil when type is not RequestedToCapacityRatio"))
	}
	return errs
}

func known(strategy configv1.ScoringStrategyType) bool {
	for _, s := range strategies {
		if s == strategy {
			return true
		}
	}
	return false
}
