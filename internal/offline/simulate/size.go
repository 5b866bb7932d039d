package simulate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-scheduler/berth/internal/model/spelling"
)

// Size is the size of a generated cluster.
type Size struct {
	Nodes, Zones int
	// Pods are pending; Running are on nodes, which are filled in turn. Apps is the
	// number of applications of each of both.
	Pods, Running, Apps int
	// Groups is the number of PodGroups. Each is a gang of groupMembers pending pods,
	// besides Pods.
	Groups int
	// Volumes is the number of Pods with a PersistentVolumeClaim, Devices the number with
	// a ResourceClaim. A pod may have both.
	Volumes, Devices int
	// Different gives each pod requests of its own.
	Different bool
	// Seed chooses the pods with claims, and the sizes of groups, volumes and different
	// pods. Without these it has no effect.
	Seed uint64
}

// The defaults of a Size: three zones, and applications of a hundred pods.
const (
	defaultZones = 3
	podsOfApp    = 100
)

// Pending returns the number of pending pods.
func (s Size) Pending() int { return s.Pods + s.Groups*groupMembers }

// sizeKey is a key of SizeOf. Its value is a number, or true or false.
type sizeKey struct {
	name    string
	number  func(*Size) *int
	boolean func(*Size) *bool
	// least is the smallest number, and example a common one.
	least, example int
}

func sizeKeys() []sizeKey {
	return []sizeKey{
		{name: "nodes", number: func(s *Size) *int { return &s.Nodes }, least: 1, example: 5000},
		{name: "pods", number: func(s *Size) *int { return &s.Pods }, example: 50000},
		{name: "running", number: func(s *Size) *int { return &s.Running }, example: 10000},
		{name: "zones", number: func(s *Size) *int { return &s.Zones }, least: 1, example: 3},
		{name: "apps", number: func(s *Size) *int { return &s.Apps }, least: 1, example: 500},
		{name: "groups", number: func(s *Size) *int { return &s.Groups }, example: 100},
		{name: "volumes", number: func(s *Size) *int { return &s.Volumes }, example: 1000},
		{name: "devices", number: func(s *Size) *int { return &s.Devices }, example: 1000},
		{name: "different", boolean: func(s *Size) *bool { return &s.Different }},
	}
}

// SizeKeys returns the keys of SizeOf, in the order of the help text.
func SizeKeys() []string {
	var names []string
	for _, key := range sizeKeys() {
		names = append(names, key.name)
	}
	return names
}

// SizeOf returns the size from keys and values, as in the value of a flag. All keys but
// nodes are optional. The error names the wrong value and the valid ones.
func SizeOf(of map[string]string) (Size, error) {
	s := Size{Zones: defaultZones}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if err := s.set(name, of[name]); err != nil {
			return s, err
		}
	}
	if s.Nodes == 0 {
		return s, errors.New("nodes is missing, such as nodes=5000")
	}
	if s.Volumes > s.Pods {
		return s, tooManyClaims("volumes", s.Volumes, s.Pods)
	}
	if s.Devices > s.Pods {
		return s, tooManyClaims("devices", s.Devices, s.Pods)
	}
	if s.Apps == 0 {
		s.Apps = max((max(s.Pods, s.Running)+podsOfApp-1)/podsOfApp, 1)
	}
	return s, nil
}

func tooManyClaims(key string, claims, pods int) error {
	return fmt.Errorf("%s=%d: must be at most pods=%d, because a pod has one claim; raise pods to %d",
		key, claims, pods, claims)
}

// set sets the value of one key.
func (s *Size) set(name, value string) error {
	keys := sizeKeys()
	at := slices.IndexFunc(keys, func(k sizeKey) bool { return k.name == name })
	if at < 0 {
		return fmt.Errorf("key %q: must be one of %s%s", name, strings.Join(SizeKeys(), ", "), similarKey(name))
	}
	key := &keys[at]
	if key.boolean != nil {
		yes, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%s=%s: must be true or false", name, value)
		}
		*key.boolean(s) = yes
		return nil
	}
	number, err := strconv.ParseInt(value, 10, 32)
	if err != nil || int(number) < key.least {
		return fmt.Errorf("%s=%s: must be a whole number from %d to %d, such as %s=%d",
			name, value, key.least, math.MaxInt32, name, key.example)
	}
	*key.number(s) = int(number)
	return nil
}

// similarKey suggests the key with the most similar name, or returns "".
func similarKey(name string) string {
	far := func(key string) int { return spelling.Distance(key, name) }
	near := slices.MinFunc(SizeKeys(), func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	if far(near) > max(2, len(name)/3) {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", near)
}
