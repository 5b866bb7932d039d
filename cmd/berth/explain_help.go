package main

// explainLong and explainExample are the help of explain.
const (
	explainLong = `Show why pods are pending, and which changes would help.

The command reads the cluster of the kubeconfig with your own permissions. POD is NAME, pod/NAME, pod NAME or
NAMESPACE/NAME. Without POD all pending pods are explained. With -f it reads the cluster from files, such as those of
"berth snapshot". Files without a Node are added to the cluster of the kubeconfig, and only their pods are explained:
also those that the controllers of Deployments, Jobs and other workloads in the files would create.

Each pending pod is checked against the cluster as it is: no other pending pod is placed, and no pod is evicted. The
table has at most ten lines for each pod: the number of nodes that each plugin rejects and why, and the result of
preemption; or the best nodes, and the scores that put the first before the second. For a pod that you name,
suggestions follow: the smallest changes that would get the pod scheduled. Every suggestion was tried with the
scheduler's engine. Pods of one controller with the same answer are printed once. -o wide has all suggestions and
all reasons, -o json every node with its scores (docs/explain-json.md). jsonpath is applied to each pod.

If Berth runs the cluster, --scheduler adds the history of the named pod: its attempts, the event that woke it each
time, what it waits for, or why it is on its node. "leader" opens a port-forward to the replica that leads, which
needs permissions in its namespace; an address needs only permission to get the pod. If you may not list the cluster,
the answer comes from the scheduler alone, or from the conditions of the pods in one namespace.

--since names an older snapshot. The output shows the smallest sets of differences that changed the result for a pod
or a pod group, each of them tried. --pod-group, with --feature-gates GenericWorkload=true, explains why a group does
not start, and the single changes that would let it start.`
	explainExample = `  # Why is this pod pending?
  kubectl berth explain web-2 -n shop

  # Why is this pod on its node? The cluster's scheduler must be Berth.
  kubectl berth explain web-0 -n shop --scheduler leader

  # Why is this pod pending, from a file, without a connection to the cluster?
  ` + takeSnapshot + `
  berth explain --snapshot cluster.json --pod shop/web-2

  # Why did it fit an hour ago?
  berth explain --since then.yaml --snapshot now.yaml --pod shop/web-2

  # Why did this gang start an hour ago?
  berth explain --since then.yaml --snapshot now.yaml --feature-gates GenericWorkload=true --pod-group ml/train

  # What keeps this gang from starting, and what would let it start?
  berth explain --snapshot cluster.yaml --feature-gates GenericWorkload=true --pod-group ml/train

  # What would another configuration decide about all pending pods?
  berth explain --snapshot cluster.yaml --config scheduler.yaml -o json`
)
