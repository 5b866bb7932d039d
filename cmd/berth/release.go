package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"
	v1 "k8s.io/api/core/v1"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/kube"
)

// releaseHelp ends the help of --release: the release without the flag.
const releaseHelp = "By default it is the release of the API server; for files, of the newest kubelet of the nodes."

// addRelease declares --release.
func addRelease(flags *pflag.FlagSet, to *string) {
	flags.StringVar(to, "release", "", "Kubernetes release whose scheduling behavior is followed: 1.37 or 1.38. "+releaseHelp)
}

// parseRelease returns the flag's value; 0 if it is not given.
func parseRelease(text string) (config.Release, error) {
	if text == "" {
		return 0, nil
	}
	release, err := config.ParseRelease(text)
	if err != nil {
		return 0, wrong{fmt.Errorf("--release %w", err)}
	}
	return release, nil
}

// forRelease returns the configuration with the answers of --release or, without the
// flag, of the cluster.
func (in *input) forRelease(ctx context.Context, scheduler *config.Config, nodes []*v1.Node) (*config.Config, error) {
	switch {
	case in.release != "":
		return scheduler, nil // since it was read
	case len(in.files) > 0:
		return scheduler.For(releaseOf(nodes))
	}
	return in.liveRelease(ctx, scheduler)
}

// liveRelease is forRelease for a live cluster.
func (in *input) liveRelease(ctx context.Context, scheduler *config.Config) (*config.Config, error) {
	if in.release != "" {
		return scheduler, nil
	}
	access, err := in.connection.access()
	if err != nil {
		return nil, wrong{err}
	}
	return scheduler.For(servedRelease(ctx, access))
}

// releaseOf returns the release of the newest kubelet, or the oldest release if no node
// has a version.
func releaseOf(nodes []*v1.Node) config.Release {
	minor := 0
	for _, node := range nodes {
		text := strings.TrimPrefix(node.Status.NodeInfo.KubeletVersion, "v")
		if v, err := utilversion.ParseGeneric(text); err == nil && v.Major() == 1 {
			minor = max(minor, int(v.Minor()))
		}
	}
	return config.ReleaseFor(minor)
}

// servedRelease returns the release of an API server, or the oldest release if the server
// has no readable version.
func servedRelease(ctx context.Context, access *rest.Config) config.Release {
	client, err := clientset.NewForConfig(access)
	if err != nil {
		return config.ReleaseFor(0)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	v, _, err := kube.ServerVersion(ctx, client)
	if err != nil {
		return config.ReleaseFor(0)
	}
	return config.ReleaseFor(v.Minor)
}
