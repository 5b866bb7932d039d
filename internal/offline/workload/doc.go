// Package workload makes the pods that controllers would make for workloads in files.
//
// It takes a cluster of files, and returns in it, for each Deployment, ReplicaSet,
// StatefulSet, DaemonSet, Job, ReplicationController, LeaderWorkerSet, JobSet and custom
// resource with a known pod template, the pods that it lacks: with the names, labels,
// owner references, tolerations, node affinity and claims that its controller gives them.
// A CronJob runs once on request.
//
// It counts the pods that a workload has already: those that name it as their controller,
// and those without a controller that its selector selects, which it would adopt. It adds
// the ReplicaSets and StatefulSets that stand between a workload and its pods, because
// default spreading reads their selectors.
//
// It owns nothing after it returns. Same cluster, same pods: the random part of a pod's
// name is a hash of its owner and number.
//
// It never removes a pod or rolls out a changed template. It makes no pods that a
// controller makes once others have started, such as the next pods of a Job, or workers
// that wait for a ready leader.
package workload
