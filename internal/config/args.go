package config

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/model/shape"
)

// argsType describes a plugin's typed arguments.
type argsType struct {
	empty func() runtime.Object
	// fill sets the defaults of missing fields.
	fill func(args runtime.Object)
	// check returns the invalid fields, or nil.
	check func(args runtime.Object, path *field.Path) error
}

func argsOf[T any, P interface {
	*T
	runtime.Object
}](fill func(P), check func(P, *field.Path) error) *argsType {
	return &argsType{
		empty: func() runtime.Object { return P(new(T)) },
		fill:  func(args runtime.Object) { fill(args.(P)) },
		check: func(args runtime.Object, path *field.Path) error { return check(args.(P), path) },
	}
}

// typesOf describes the arguments of an out-of-tree plugin from the scheme; nil if the
// scheme has no type for them.
func typesOf(scheme *runtime.Scheme, name string) *argsType {
	kind := configv1.SchemeGroupVersion.WithKind(name + "Args")
	if !scheme.Recognizes(kind) {
		return nil
	}
	return &argsType{
		empty: func() runtime.Object {
			args, err := scheme.New(kind)
			if err != nil {
				panic(err) // the scheme recognizes the kind
			}
			return args
		},
		fill:  scheme.Default,
		check: func(runtime.Object, *field.Path) error { return nil }, // left to the plugin
	}
}

// argsForFactory returns a plugin's arguments for its factory: converted to the internal
// version if the scheme has it, else as decoded. Arguments of no registered type are a
// *runtime.Unknown. It returns nil without arguments.
func argsForFactory(scheme *runtime.Scheme, name string, configs []configv1.PluginConfig) (runtime.Object, error) {
	config := argsFor(name, configs)
	if config == nil {
		return nil, nil
	}
	var args runtime.Object
	if err := runtime.Convert_runtime_RawExtension_To_runtime_Object(config.DeepCopy(), &args, nil); err != nil {
		return nil, err
	}
	internal := schema.GroupVersion{Group: configv1.GroupName, Version: runtime.APIVersionInternal}
	if config.Object == nil || !scheme.Recognizes(internal.WithKind(name+"Args")) {
		return args, nil
	}
	converted, err := scheme.ConvertToVersion(args, internal)
	if err != nil {
		return nil, err
	}
	return converted, nil
}

func preemptionArgs() *argsType {
	fill := func(args *configv1.DefaultPreemptionArgs) {
		missing(&args.MinCandidateNodesPercentage, 10)
		missing(&args.MinCandidateNodesAbsolute, 100)
	}
	return argsOf(fill, func(args *configv1.DefaultPreemptionArgs, path *field.Path) error {
		const zeros = "cannot be zero at the same time as %s"
		percentage, absolute := *args.MinCandidateNodesPercentage, *args.MinCandidateNodesAbsolute
		percentagePath, absolutePath := path.Child("minCandidateNodesPercentage"), path.Child("minCandidateNodesAbsolute")
		var errs field.ErrorList
		if percentage < 0 || percentage > 100 {
			errs = append(errs, field.Invalid(percentagePath, percentage, "not in valid range [0, 100]"))
		}
		if absolute < 0 {
			errs = append(errs, field.Invalid(absolutePath, absolute, "not in valid range [0, inf)"))
		}
		if percentage == 0 && absolute == 0 {
			errs = append(errs,
				field.Invalid(percentagePath, percentage, fmt.Sprintf(zeros, "minCandidateNodesAbsolute")),
				field.Invalid(absolutePath, absolute, fmt.Sprintf(zeros, "minCandidateNodesPercentage")))
		}
		return errs.ToAggregate()
	})
}

func interPodAffinityArgs() *argsType {
	fill := func(args *configv1.InterPodAffinityArgs) { missing(&args.HardPodAffinityWeight, 1) }
	return argsOf(fill, func(args *configv1.InterPodAffinityArgs, path *field.Path) error {
		if weight := *args.HardPodAffinityWeight; weight < 0 || weight > 100 {
			return field.Invalid(path.Child("hardPodAffinityWeight"), weight, "not in valid range [0, 100]")
		}
		return nil
	})
}

func nodeAffinityArgs() *argsType {
	return argsOf(func(*configv1.NodeAffinityArgs) {}, func(args *configv1.NodeAffinityArgs, path *field.Path) error {
		if args.AddedAffinity == nil {
			return nil
		}
		const requiredField, preferredField = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
		required := args.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		preferred := args.AddedAffinity.PreferredDuringSchedulingIgnoredDuringExecution
		var errs []error
		if required != nil {
			_, err := nodeaffinity.NewNodeSelector(required, field.WithPath(path.Child("addedAffinity", requiredField)))
			errs = append(errs, err)
		}
		if len(preferred) > 0 {
			_, err := nodeaffinity.NewPreferredSchedulingTerms(preferred, field.WithPath(path.Child("addedAffinity", preferredField)))
			errs = append(errs, err)
		}
		return utilerrors.NewAggregate(errs)
	})
}

// fitArgs leaves checking to the plugin, so that arguments of a disabled plugin are not
// checked, as in kube-scheduler.
func fitArgs() *argsType {
	fill := func(args *configv1.NodeResourcesFitArgs) {
		if args.ScoringStrategy == nil {
			args.ScoringStrategy = &configv1.ScoringStrategy{Type: configv1.LeastAllocated}
		}
		args.ScoringStrategy.Resources = weighed(args.ScoringStrategy.Resources)
	}
	return argsOf(fill, func(*configv1.NodeResourcesFitArgs, *field.Path) error { return nil })
}

func balancedAllocationArgs() *argsType {
	fill := func(args *configv1.NodeResourcesBalancedAllocationArgs) { args.Resources = weighed(args.Resources) }
	return argsOf(fill, func(args *configv1.NodeResourcesBalancedAllocationArgs, path *field.Path) error {
		var errs field.ErrorList
		seen := sets.New[string]()
		for i, resource := range args.Resources {
			path := path.Child("resources").Index(i)
			if seen.Has(resource.Name) {
				errs = append(errs, field.Duplicate(path.Child("name"), resource.Name))
			}
			seen.Insert(resource.Name)
			if resource.Weight != 1 {
				errs = append(errs, field.Invalid(path.Child("weight"), resource.Weight, "must be 1"))
			}
		}
		return errs.ToAggregate()
	})
}

// weighed returns the resources with weights. The default is cpu and memory.
func weighed(resources []configv1.ResourceSpec) []configv1.ResourceSpec {
	if len(resources) == 0 {
		resources = []configv1.ResourceSpec{{Name: string(v1.ResourceCPU)}, {Name: string(v1.ResourceMemory)}}
	}
	for i := range resources {
		if resources[i].Weight == 0 {
			resources[i].Weight = 1
		}
	}
	return resources
}

func spreadArgs() *argsType {
	fill := func(args *configv1.PodTopologySpreadArgs) {
		if args.DefaultingType == "" {
			args.DefaultingType = configv1.SystemDefaulting
		}
	}
	return argsOf(fill, func(args *configv1.PodTopologySpreadArgs, path *field.Path) error {
		var errs field.ErrorList
		types := []configv1.PodTopologySpreadConstraintsDefaulting{configv1.SystemDefaulting, configv1.ListDefaulting}
		switch typePath := path.Child("defaultingType"); {
		case args.DefaultingType != configv1.SystemDefaulting && args.DefaultingType != configv1.ListDefaulting:
			errs = append(errs, field.NotSupported(typePath, args.DefaultingType, types))
		case args.DefaultingType == configv1.SystemDefaulting && len(args.DefaultConstraints) > 0:
			errs = append(errs, field.Invalid(typePath, args.DefaultingType, "when .defaultConstraints are not empty"))
		}
		constraintsPath := path.Child("defaultConstraints")
		for i := range args.DefaultConstraints {
			errs = append(errs, checkConstraint(&args.DefaultConstraints[i], constraintsPath.Index(i))...)
			errs = append(errs, checkRepeated(args.DefaultConstraints[:i+1], constraintsPath.Index(i))...)
		}
		return errs.ToAggregate()
	})
}

func checkConstraint(c *v1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.MaxSkew <= 0 {
		errs = append(errs, field.Invalid(path.Child("maxSkew"), c.MaxSkew, "not in valid range (0, inf)"))
	}
	if keyPath := path.Child("topologyKey"); c.TopologyKey == "" {
		errs = append(errs, field.Required(keyPath, "can not be empty"))
	} else {
		errs = append(errs, validation.ValidateLabelName(c.TopologyKey, keyPath)...)
	}
	switch actionPath := path.Child("whenUnsatisfiable"); c.WhenUnsatisfiable {
	case v1.DoNotSchedule, v1.ScheduleAnyway:
	case "":
		errs = append(errs, field.Required(actionPath, "can not be empty"))
	default:
		errs = append(errs, field.NotSupported(actionPath, c.WhenUnsatisfiable,
			[]v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway}))
	}
	if c.LabelSelector != nil {
		errs = append(errs, field.Forbidden(path.Child("labelSelector"), "constraint must not define a selector, as they deduced for each pod"))
	}
	return errs
}

// checkRepeated returns an error if the last constraint repeats the key and action of an
// earlier one.
func checkRepeated(constraints []v1.TopologySpreadConstraint, path *field.Path) field.ErrorList {
	before, last := constraints[:len(constraints)-1], &constraints[len(constraints)-1]
	for i := range before {
		if before[i].TopologyKey == last.TopologyKey && before[i].WhenUnsatisfiable == last.WhenUnsatisfiable {
			return field.ErrorList{field.Duplicate(path, fmt.Sprintf("{%s, %s}", last.TopologyKey, last.WhenUnsatisfiable))}
		}
	}
	return nil
}

// volumeBindingArgs has a default utilization shape if nodes are scored by their storage.
func volumeBindingArgs(scoring bool) *argsType {
	fill := func(args *configv1.VolumeBindingArgs) {
		missing(&args.BindTimeoutSeconds, 600)
		if len(args.Shape) == 0 && scoring {
			args.Shape = []configv1.UtilizationShapePoint{{Utilization: 0, Score: 10}, {Utilization: 100, Score: 0}}
		}
	}
	return argsOf(fill, func(args *configv1.VolumeBindingArgs, path *field.Path) error {
		var errs field.ErrorList
		if seconds := *args.BindTimeoutSeconds; seconds < 0 {
			errs = append(errs, field.Invalid(path.Child("bindTimeoutSeconds"), seconds, "invalid BindTimeoutSeconds, should not be a negative value"))
		}
		switch {
		case scoring:
			errs = append(errs, shape.Check(args.Shape, path.Child("shape"))...)
		case args.Shape != nil:
			errs = append(errs, field.Invalid(path.Child("shape"), args.Shape,
				"unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"))
		}
		return errs.ToAggregate()
	})
}

// dynamicResourcesArgs has two timeouts, each only if its feature is on.
func dynamicResourcesArgs(filtering, binding bool) *argsType {
	fill := func(args *configv1.DynamicResourcesArgs) {
		if filtering {
			missing(&args.FilterTimeout, metav1.Duration{Duration: configv1.DynamicResourcesFilterTimeoutDefault})
		}
		if binding {
			missing(&args.BindingTimeout, metav1.Duration{Duration: configv1.DynamicResourcesBindingTimeoutDefault})
		}
	}
	return argsOf(fill, func(args *configv1.DynamicResourcesArgs, path *field.Path) error {
		var errs field.ErrorList
		filterPath, bindingPath := path.Child("filterTimeout"), path.Child("bindingTimeout")
		switch {
		case args.FilterTimeout == nil:
		case !filtering:
			// The text misspells the gate's name, as kube-scheduler does.
			errs = append(errs, field.Forbidden(filterPath, "DRASchedulingFilterTimeout feature gate is disabled"))
		case args.FilterTimeout.Duration < 0:
			errs = append(errs, field.Invalid(filterPath, args.FilterTimeout, "must be zero or positive"))
		}
		switch {
		case args.BindingTimeout == nil:
		case !binding:
			errs = append(errs, field.Forbidden(bindingPath, "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"))
		case args.BindingTimeout.Duration < time.Second:
			errs = append(errs, field.Invalid(bindingPath, args.BindingTimeout, "must be at least 1 second"))
		}
		return errs.ToAggregate()
	})
}
