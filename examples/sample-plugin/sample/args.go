package sample

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// SampleArgs are the plugin's arguments, in pluginConfig of a KubeSchedulerConfiguration.
type SampleArgs struct { //nolint:revive // the name of the type is the kind in the configuration
	metav1.TypeMeta `json:",inline"`

	// FavoriteColor is the color of labelled nodes that pods go to, unless they name
	// another color. Default: blue.
	FavoriteColor string `json:"favoriteColor,omitempty"`
	// FavoriteNumber is between 0 and 1000; nodes with a number near it are preferred.
	// Default: 7.
	FavoriteNumber *int `json:"favoriteNumber,omitempty"`
	// ThanksTo is the name that must be thanked before a pod that wants thanks is bound.
	// Default: everyone.
	ThanksTo string `json:"thanksTo,omitempty"`
}

// numberMax is the largest favorite number.
const numberMax = 1000

// AddToScheme registers the arguments' type and their defaults with the scheduler.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(configv1.SchemeGroupVersion, &SampleArgs{})
	scheme.AddTypeDefaultingFunc(&SampleArgs{}, func(object any) { setDefaults(object.(*SampleArgs)) })
	return nil
}

func setDefaults(args *SampleArgs) {
	if args.FavoriteColor == "" {
		args.FavoriteColor = "blue"
	}
	if args.FavoriteNumber == nil {
		seven := 7
		args.FavoriteNumber = &seven
	}
	if args.ThanksTo == "" {
		args.ThanksTo = "everyone"
	}
}

// validate returns an error with each invalid field, its value and the valid range.
func (a *SampleArgs) validate() error {
	var errs field.ErrorList
	for _, problem := range utilvalidation.IsValidLabelValue(a.FavoriteColor) {
		errs = append(errs, field.Invalid(field.NewPath("favoriteColor"), a.FavoriteColor, problem))
	}
	if n := *a.FavoriteNumber; n < 0 || n > numberMax {
		errs = append(errs, field.Invalid(field.NewPath("favoriteNumber"), n, utilvalidation.InclusiveRangeError(0, numberMax)))
	}
	if n := len(a.ThanksTo); n > 100 {
		errs = append(errs, field.TooLong(field.NewPath("thanksTo"), a.ThanksTo, 100))
	}
	return errs.ToAggregate()
}

// DeepCopyObject makes the arguments an API object.
func (a *SampleArgs) DeepCopyObject() runtime.Object {
	clone := *a
	if a.FavoriteNumber != nil {
		number := *a.FavoriteNumber
		clone.FavoriteNumber = &number
	}
	return &clone
}
