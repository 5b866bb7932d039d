// Package manifest reads a cluster from files, for `berth simulate -f` and `berth explain --snapshot`.
//
// It takes YAML (any number of documents) and JSON (any number of values), single objects and lists, exactly as
// `kubectl get -o yaml` and `-o json` print them and as people write them. "-" is standard input; a directory stands for
// the *.yaml, *.yml and *.json files in it and in its subdirectories, in the order of their names; an archive (zip, tar,
// gzip) for those in it. So it reads the directories and the stream of `kubectl cluster-info dump`, a must-gather of
// OpenShift, the export of kube-scheduler-simulator and the snapshot of KAI Scheduler. Decoding is strict: a field that
// the Kubernetes API does not have is an error.
//
// Objects with a uid and a resourceVersion come from an API server. An odd field of these is a
// warning, and of two states of one object the later is taken.
//
// It gives a [Cluster]: one slice per kind that a scheduler reads, or a controller of the simulation, each in the order of the files, with the values filled in
// that the API server would have filled in and scheduling depends on:
//
//   - every object: metadata.namespace "default" where the kind has namespaces; metadata.uid derived from kind, namespace and
//     name. metadata.managedFields is dropped: nothing reads it, and it can be half of a snapshot.
//   - Namespace: the label kubernetes.io/metadata.name. A namespace that an object is in and no file has is added, with that
//     label alone: the object could not exist without it.
//   - Node: status.allocatable from status.capacity. A node without an allowed number of pods is kept as it is.
//   - Pod: spec.schedulerName; status.phase Pending; per container, requests from limits; pod-level requests from the
//     containers' requests and the pod-level limits; port protocol TCP; host ports from container ports under hostNetwork;
//     the five-minute tolerations for not-ready and unreachable nodes (the DefaultTolerationSeconds admission plugin).
//   - Pod, PodGroup, CompositePodGroup: spec.priority, and with it priorityClassName and preemptionPolicy, from the
//     PriorityClass in the files that is named, from the built-in system classes, or from the class that is the global
//     default; else priority 0. A named class that no file has is a warning and counts 0.
//   - PersistentVolume, PersistentVolumeClaim: status.phase Pending, volumeMode Filesystem; an unbound claim
//     without a class gets the default StorageClass in the files, if there is one.
//   - StorageClass: volumeBindingMode Immediate, reclaimPolicy Delete. CSIDriver: attachRequired true, storageCapacity false,
//     preventPodSchedulingIfMissing false. PriorityClass, PodGroup, CompositePodGroup: preemptionPolicy PreemptLowerPriority.
//   - ReplicationController: spec.selector from the template's labels.
//   - ResourceClaim, ResourceClaimTemplate: each device request's allocationMode ExactCount, count 1.
//   - every quantity in a list of resources is rounded up to thousandths.
//
// Kinds that scheduling does not read, and custom resources of any kind, are counted in [Cluster.Skipped]; what looks wrong
// and can still be simulated is in [Cluster.Warnings], with text between objects that was skipped.
//
// It owns nothing after it returns: the cluster is the caller's, and nothing in it aliases the bytes read. The goroutines it
// starts end before it returns. Same files, same cluster, same errors.
//
// It never calls an API server, never emulates admission plugins that need more than these files (LimitRanger,
// RuntimeClass, quotas, webhooks) or controllers (package workload does), never guesses an unknown
// kind, and never stops at the first mistake: an error from [Read] lists every one, up to a limit.
package manifest
