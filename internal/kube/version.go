package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
)

// Version is the version of an API server.
type Version struct {
	// Minor is the minor version of Kubernetes 1.
	Minor int
	// Text is the whole version, such as v1.37.1.
	Text string
}

// ServerVersion reads the version of the API server. answered is false after an error
// that another request may not have: the server was not reached, or is overloaded.
func ServerVersion(ctx context.Context, client kubernetes.Interface) (v Version, answered bool, err error) {
	const action = "read the version of the API server: %w"
	data, err := client.Discovery().RESTClient().Get().AbsPath("/version").SetHeader("Accept", "application/json").Do(ctx).Raw()
	if err != nil {
		return Version{}, apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err), fmt.Errorf(action, err)
	}
	v, err = parseVersion(data)
	if err != nil {
		err = fmt.Errorf(action, err)
	}
	return v, true, err
}

// parseVersion parses the response of /version. Providers may append a sign to the minor
// version.
func parseVersion(data []byte) (Version, error) {
	var have version.Info
	if err := json.Unmarshal(data, &have); err != nil {
		return Version{}, err
	}
	minor, err := strconv.Atoi(strings.TrimRight(have.Minor, "+"))
	if err != nil || have.Major != "1" || minor < 0 {
		return Version{}, fmt.Errorf("%q is not a version of Kubernetes 1", have.GitVersion)
	}
	return Version{minor, have.GitVersion}, nil
}
