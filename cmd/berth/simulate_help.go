package main

// simulateLong and simulateExample are the help of simulate.
const (
	simulateLong = `Show where the pending pods of a cluster would go.

The command reads the cluster of the kubeconfig with your own permissions, and writes nothing to it. Files without a
Node are added to that cluster: their pods are created last, and only these are printed. Files with a Node are the
cluster, such as those of "berth snapshot" or "kubectl cluster-info dump". For Deployments, StatefulSets, DaemonSets,
Jobs and other workloads in the files, the command creates the pods that their controllers would create, minus the
existing ones.

The scheduler runs on the cluster with a virtual clock until no further pod can be placed: by priority and then by
age. An unschedulable pod is printed with the reason, a preempted pod with its preemptor. Preempted pods end after
their grace period and are not recreated. The same files, configuration and seed give the same result.

If more than 40 pods are listed, the table has one row for the pods of an owner with equal requests and the same
result; the other formats list each pod. With --feature-gates GenericWorkload=true the members of a pod group are
scheduled together, and a second table shows why a group waits.

--generate creates a cluster instead of reading one, and prints only the summary. Its keys:
  nodes, zones    nodes, and the zones that they are in
  pods, running   pending pods, and pods on nodes
  apps            applications of these pods; some are spread over zones or nodes
  groups          PodGroups, each a gang of 8 more pods; without --feature-gates GenericWorkload=true their members
                  are scheduled one by one
  volumes         pods with a claim: half are provisioned in a zone, half are bound to a local volume
  devices         pods with a ResourceClaim of one device; each node has four devices
  different       true gives each pod requests of its own`
	simulateExample = `  # Would these pods fit, and where?
  kubectl berth simulate -f replicas.yaml

  # Where would the pending pods go, from a snapshot?
  ` + takeSnapshot + `
  berth simulate -f cluster.json

  # Where would they go if these ten replicas were created too?
  berth simulate -f cluster.yaml -f replicas.yaml --config scheduler.yaml -o wide

  # Where would fifty replicas of a Deployment go?
  kubectl berth simulate -f web.yaml --scale shop/web=50

  # How long would it take to schedule a million pods?
  berth simulate --generate nodes=50000,pods=1000000

  # Do two builds decide the same about gangs, volumes and devices? Compare the output of both.
  berth simulate --generate nodes=1000,pods=10000,groups=100,volumes=1000,devices=1000 \
    --feature-gates GenericWorkload=true --seed 1 -o json`
)
