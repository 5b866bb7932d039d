package gang

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// GangArgs are the plugin's arguments, in pluginConfig of a KubeSchedulerConfiguration.
type GangArgs struct { //nolint:revive // the name of the type is the kind in the configuration
	metav1.TypeMeta `json:",inline"`

	// PermitSeconds is how long the members of a gang hold their nodes while they wait
	// for each other, counted from the first member. Default: 30.
	PermitSeconds *int32 `json:"permitSeconds,omitempty"`
	// MaxBackoffSeconds limits the backoff of a gang that did not fit. The first backoff
	// is 1 s, and each further one is twice as long. Default: 10.
	MaxBackoffSeconds *int32 `json:"maxBackoffSeconds,omitempty"`
}

// AddToScheme registers the arguments' type and their defaults with the scheduler.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(configv1.SchemeGroupVersion, &GangArgs{})
	scheme.AddTypeDefaultingFunc(&GangArgs{}, func(object any) { setDefaults(object.(*GangArgs)) })
	return nil
}

func setDefaults(args *GangArgs) {
	if args.PermitSeconds == nil {
		args.PermitSeconds = new(int32(30))
	}
	if args.MaxBackoffSeconds == nil {
		args.MaxBackoffSeconds = new(int32(10))
	}
}

// validate returns an error with each invalid field, its value and the valid range.
func (a *GangArgs) validate() error {
	var errs field.ErrorList
	for name, value := range map[string]int32{"permitSeconds": *a.PermitSeconds, "maxBackoffSeconds": *a.MaxBackoffSeconds} {
		if value < 1 || value > 600 {
			errs = append(errs, field.Invalid(field.NewPath(name), value, "must be between 1 and 600, inclusive"))
		}
	}
	return errs.ToAggregate()
}

// DeepCopyObject makes the arguments an API object.
func (a *GangArgs) DeepCopyObject() runtime.Object {
	clone := *a
	if a.PermitSeconds != nil {
		clone.PermitSeconds = new(*a.PermitSeconds)
	}
	if a.MaxBackoffSeconds != nil {
		clone.MaxBackoffSeconds = new(*a.MaxBackoffSeconds)
	}
	return &clone
}
