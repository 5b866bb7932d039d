package main

// explainLong and explainExample are the help of explain.
const (
	explainLong = `Show for pending pods why each node is feasible or not, and how it scores.

The command reads the cluster of the kubeconfig with your own rights. You need permission to list pods and nodes.
For anything else you may not list, the output states what was assumed. POD is NAME, in the namespace of -n or of
the context, or NAMESPACE/NAME. Without POD all pending pods are explained, with -n those of one namespace. Use
--config to give the configuration of the cluster's scheduler; without it the default configuration is assumed.

With --snapshot the command reads the cluster from files and needs no running one. "berth snapshot" writes such a
file; the output of "kubectl get -o yaml" works too. Each pending pod is checked against the cluster as it is: no
other pending pod is placed, and no pod is evicted. "berth simulate" places the pods one after another.

The table has at most ten lines for each pod: the number of nodes that each plugin rejects and why, and the result
of preemption; or the best nodes, and the scores that put the first before the second. For a pending pod named on
the command line, suggestions follow: the smallest changes that would get the pod scheduled. Every suggestion was
tried with the scheduler's engine. Pods of one controller with the same answer are printed once, with their number.

-o wide adds the number of nodes that pass each plugin, the nodes that a single plugin rejects and by how much, all
suggestions, and equal nodes in one line. With --pod-group table and wide are the same.

JSON and YAML have everything: one object for the pod of --pod, or a list with an object for each pod, by namespace
and name. For each node, by name:
  rejections  Every plugin that rejects the node, in the order of the profile. The first is the one that
              kube-scheduler reports. An entry without a plugin means that no filter ran, because a PreFilter plugin
              selected other nodes; leftOutBy lists these plugins.
  scores      Every plugin that scores the pod, normalised to 0..100 before the weight, and total, their weighted
              sum. Empty if only one node is feasible: kube-scheduler then skips scoring. If the pod has a feasible
              nominated node, kube-scheduler skips scoring as well, but the scores are shown here.
For the pod, where they apply:
  message     The text of the FailedScheduling event, if no node is feasible.
  postFilterMessage
              The part of message that preemption adds: what it would do, why it helps on no node, or why the pod
              may not preempt.
  preemption  The result of preemption: the nominated node; the victims, the most important first, with priority,
              start time and owner; the PodDisruptionBudgets that would be violated; and the pods of lower priority
              that would lose their nomination to the node.
  gated       Why a PreEnqueue plugin holds the pod back. Its nodes are checked as well.
  error       Why the attempt would fail: the pod is being deleted (its nodes are checked as well), or a plugin
              fails (then scores are missing).
  podGroup    The pod group that is scheduled as a whole (feature gate GenericWorkload).
  group       The result for that group. In a list only its first member has it.
  advice      What would get the named pod scheduled: suggestions, each with its changes, the node of the pod after
              them, and the number of other pods of its owner that would follow; the missing parts; and whether the
              search was cut short. See docs/explain-json.md.
  history     With --scheduler, if the cluster's scheduler is Berth: the attempts of the named pod, the event that
              woke it each time, what it waits for, and the pods before it.
  decision    With --scheduler: why the named pod is on its node, with the best nodes, every plugin's score, and the
              scores that decided.

history and decision come from the running scheduler, which receives your own credentials. It is contacted only if
--scheduler is set. With "leader" the command opens a port-forward to the replica that leads; you need permission to
get the lease and that pod, and to create pods/portforward there. With an address, the certificate of the server is
verified. You also need permission to get the explained pod. If the scheduler does not answer, the rest of the
output is printed without these two parts.

--since names an older snapshot. The output then shows why the result for a pod differs from the result in that
snapshot: the nodes lost or won, and the smallest sets of differences that bring the old result back when they are
undone in the newer snapshot. If the pod has a node only in the newer snapshot, it shows the smallest sets that give
the pod a node in the older one. Every set was tried. A pod on a node is checked as if it were pending, in both
snapshots.

With --feature-gates GenericWorkload=true the members of a pod group are scheduled together, and --pod-group
explains a group. Include podgroups in the snapshot. The members are placed one after another, in the order of the
scheduler, and removed again. The output shows which members can be placed, which member holds the group up and
which plugins reject it on how many nodes, the condition that the PodGroup would get, and the single changes that
would let the group start: a lower minCount, more nodes like one of the cluster, more members. Every change was
tried.`
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
