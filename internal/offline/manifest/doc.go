// Package manifest reads a cluster from files, for `berth simulate -f` and `berth explain
// --snapshot`.
//
// It takes YAML (any number of documents) and JSON (any number of values), single objects
// and lists, as `kubectl get -o yaml` and `-o json` print them and as people write them.
// "-" is standard input. A directory stands for the *.yaml, *.yml and *.json files in it
// and in its subdirectories, in the order of their names. An archive (zip, tar, gzip)
// stands for such files in it. So it reads the directories and the stream of `kubectl
// cluster-info dump`, a must-gather of OpenShift, the export of kube-scheduler-simulator
// and the snapshot of KAI Scheduler. Decoding is strict: a field that the Kubernetes API
// does not have is an error.
//
// Objects with a uid and a resourceVersion come from an API server. An odd field in such
// an object is only a warning. If an object occurs twice, the later version is used.
//
// It returns a [Cluster]: one slice per kind that a scheduler or a controller of the
// simulation reads, each in the order of the files. The values that scheduling depends on
// and the API server would fill in are filled in:
//
//   - Every object: metadata.namespace "default" for namespaced kinds; metadata.uid,
//     derived from kind, namespace and name. metadata.managedFields is dropped, because
//     nothing reads it and it can be half of a snapshot.
//   - Namespace: the label kubernetes.io/metadata.name. A namespace that objects name and
//     no file contains is added with that label alone, because the objects could not
//     exist without it.
//   - Node: status.allocatable from status.capacity. A node without an allowed number of
//     pods stays as it is.
//   - Pod: spec.schedulerName; status.phase Pending; per container, requests from limits;
//     pod-level requests from the containers' requests and the pod-level limits; port
//     protocol TCP; host ports from container ports under hostNetwork; the five-minute
//     tolerations for not-ready and unreachable nodes (the DefaultTolerationSeconds
//     admission plugin).
//   - Pod, PodGroup, CompositePodGroup: spec.priority, priorityClassName and
//     preemptionPolicy. They come from the named PriorityClass in the files, a built-in
//     system class, or the global default class. Otherwise the priority is 0. A named
//     class that no file contains is a warning and counts 0.
//   - PersistentVolume, PersistentVolumeClaim: status.phase Pending, volumeMode
//     Filesystem. An unbound claim without a class gets the default StorageClass in the
//     files, if any.
//   - StorageClass: volumeBindingMode Immediate, reclaimPolicy Delete. CSIDriver:
//     attachRequired true, storageCapacity false, preventPodSchedulingIfMissing false.
//     PriorityClass, PodGroup, CompositePodGroup: preemptionPolicy PreemptLowerPriority.
//   - ReplicationController: spec.selector from the template's labels.
//   - ResourceClaim, ResourceClaimTemplate: each device request's allocationMode
//     ExactCount, count 1.
//   - Every quantity in a list of resources is rounded up to thousandths.
//
// Kinds that scheduling does not read, and custom resources of any kind, are counted in
// [Cluster.Skipped]. [Cluster.Warnings] lists suspicious objects that can still be
// simulated, and skipped text between objects.
//
// It owns nothing after it returns: the cluster belongs to the caller, and nothing in it
// aliases the bytes read. Its goroutines end before it returns. The same files give the
// same cluster and the same errors.
//
// It never calls an API server, and never guesses an unknown kind. It never emulates
// controllers (package workload does), or admission plugins that need more than these
// files (LimitRanger, RuntimeClass, quotas, webhooks). It never stops at the first
// mistake: an error from [Read] lists every one, up to a limit.
package manifest
