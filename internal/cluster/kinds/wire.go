package kinds

import (
	"bytes"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-scheduler/berth/internal/model"
)

// Pods of one template differ in few fields: name, node, volumes, perhaps affinity.
// Decoding each pod separately would decode and keep the same specs tens of thousands of
// times. So the watches decode pods from protobuf in two parts. They remove the differing
// and the unread fields from a pod's spec, and look up the rest by its bytes. Only a new
// rest is decoded, by the library, and trimmed.
//
// The result equals decoding and trimming the whole pod, except that specs of one
// template share their containers, tolerations and so on. JSON is decoded whole. So are
// lists, for servers that cannot begin a watch with a list.

// Trimming returns codecs that decode the kinds that scheduling reads, and their lists,
// trimmed. Other objects are decoded by the given codecs. The codecs of one call share
// values only with each other.
func Trimming(codecs runtime.NegotiatedSerializer) runtime.NegotiatedSerializer {
	return trimmingCodecs{codecs, new(sharing)}
}

// trimmingCodecs decode trimmed objects for all media types; or whole objects, if shared
// is nil.
type trimmingCodecs struct {
	runtime.NegotiatedSerializer
	shared *sharing
}

// SupportedMediaTypes returns the media types of the underlying codecs.
func (c trimmingCodecs) SupportedMediaTypes() []runtime.SerializerInfo {
	infos := c.NegotiatedSerializer.SupportedMediaTypes()
	trimming := make([]runtime.SerializerInfo, len(infos))
	for i, info := range infos {
		info.Serializer = &trimmingSerializer{info.Serializer, c.shared, info.MediaType == runtime.ContentTypeProtobuf}
		trimming[i] = info
	}
	return trimming
}

// trimmingSerializer decodes trimmed objects and lists, or whole ones if shared is nil.
// Its pods must not be trimmed again: that would write to shared values.
type trimmingSerializer struct {
	runtime.Serializer
	shared   *sharing
	protobuf bool
}

// Decode decodes an object.
func (s *trimmingSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil && s.protobuf && s.shared != nil {
		if pod, ok := s.shared.decodePod(data); ok {
			kind := podKind
			return pod, &kind, nil
		}
	}
	object, kind, err := s.Serializer.Decode(data, defaults, into)
	if err != nil || object == nil {
		return object, kind, err
	}
	if meta.IsListType(object) {
		return object, kind, meta.EachListItem(object, s.trim)
	}
	return object, kind, s.trim(object)
}

// trim trims an object, except a bookmark, which has no name and whose annotations
// client-go reads.
func (s *trimmingSerializer) trim(object runtime.Object) error {
	row := Of(object)
	switch {
	case row == nil || object.(Object).GetName() == "":
	case s.shared == nil:
		keepWhole(object.(Object))
	default:
		row.trimOrKeep(s.shared, object.(Object))
	}
	return nil
}

var podKind = v1.SchemeGroupVersion.WithKind("Pod")

// Numbers of the fields that are separated here, from
// k8s.io/apimachinery/pkg/runtime/generated.proto, its meta/v1, and
// k8s.io/api/core/v1/generated.proto.
const (
	unknownTypeMeta, unknownRaw = 1, 2
	typeAPIVersion, typeKind    = 1, 2

	podMetadata, podSpec, podStatus = 1, 2, 3

	metaLabels, metaManagedFields = 11, 17

	specVolumes, specContainers, specNodeName, specAffinity, specInitContainers = 1, 2, 10, 18, 20

	specSecurityContext      = 14
	containerSecurityContext = 15

	containerVolumeMounts = 9
	mountBindOptions      = 8
)

// Numbers of fields that trimming drops. They are length-delimited, and some differ from
// pod to pod. TestAnyPodIsDecoded fails if trimming keeps one of them. A field that is
// missing here only prevents sharing.
var (
	// dnsPolicy, serviceAccountName and its old name, securityContext without an OCI
	// profile, imagePullSecrets, hostname, subdomain, hostAliases, dnsConfig,
	// readinessGates
	specUnread = numbers(6, 8, 9, 14, 15, 16, 17, 23, 26, 28)
	// command, args, workingDir, env, livenessProbe, readinessProbe, lifecycle,
	// terminationMessagePath, imagePullPolicy, securityContext as above, envFrom,
	// terminationMessagePolicy, volumeDevices, startupProbe
	containerUnread = numbers(3, 4, 5, 7, 10, 11, 12, 13, 14, 15, 19, 20, 21, 22)
)

// numberSet is a set of field numbers below 64.
type numberSet uint64

func numbers(all ...int) (set numberSet) {
	for _, n := range all {
		set |= 1 << n
	}
	return set
}

func (set numberSet) has(number protowire.Number) bool { return set&(1<<number) != 0 }

// protobufMagic is the prefix of objects that the API server sends as protobuf.
var protobufMagic = []byte("k8s\x00")

// maxWire is the largest size in bytes that is looked up. Anything longer is decoded each
// time.
const maxWire = 64 << 10

// pieces are the parts of an encoded pod. The slices are reused for the next pod.
type pieces struct {
	meta, labels, spec, affinity []byte
	container                    []byte // buffer for the current container
	// These point into the received bytes.
	volumes          [][]byte
	nodeName, status []byte
	hasAffinity      bool // perhaps an empty one
}

var piecesPool = sync.Pool{New: func() any { return new(pieces) }}

// giveBack keeps the slices for another pod, without the received bytes.
func (p *pieces) giveBack() {
	clear(p.volumes)
	*p = pieces{
		meta: p.meta[:0], labels: p.labels[:0], spec: p.spec[:0], affinity: p.affinity[:0], container: p.container[:0], volumes: p.volumes[:0],
	}
	piecesPool.Put(p)
}

// decodePod decodes a pod from the API server. ok is false for other objects, for
// bookmarks (which have no name) and for malformed bytes. The library then decodes them,
// or returns its error.
func (s *sharing) decodePod(data []byte) (pod *v1.Pod, ok bool) {
	raw, ok := rawPod(data)
	if !ok {
		return nil, false
	}
	p := piecesPool.Get().(*pieces)
	defer p.giveBack()
	if !p.takeApart(raw) {
		return nil, false
	}
	pod = new(v1.Pod)
	if pod.ObjectMeta.Unmarshal(p.meta) != nil || pod.Name == "" {
		return nil, false
	}
	s.trimMeta(&pod.ObjectMeta)
	trimPodMeta(&pod.ObjectMeta)
	if len(p.labels) > 0 {
		if pod.Labels = s.wireLabels(p.labels); pod.Labels == nil {
			return nil, false
		}
	}
	spec := s.wireSpec(p.spec)
	if spec == nil {
		return nil, false
	}
	pod.Spec = *spec
	pod.Spec.NodeName = model.Interned(string(p.nodeName))
	if p.hasAffinity {
		if pod.Spec.Affinity = s.wireAffinity(p.affinity); pod.Spec.Affinity == nil {
			return nil, false
		}
	}
	if len(p.volumes) > 0 {
		volumes := make([]v1.Volume, len(p.volumes))
		for i, wire := range p.volumes {
			if volumes[i].Unmarshal(wire) != nil {
				return nil, false
			}
		}
		pod.Spec.Volumes = readVolumes(volumes)
	}
	if pod.Status.Unmarshal(p.status) != nil {
		return nil, false
	}
	s.trimPodStatus(&pod.Status)
	return pod, true
}

// wireSpec returns the trimmed spec of these bytes, or nil if they cannot be decoded.
func (s *sharing) wireSpec(wire []byte) *v1.PodSpec {
	return byWire(&s.templates, wire, func() *v1.PodSpec {
		spec := new(v1.PodSpec)
		if spec.Unmarshal(wire) != nil {
			return nil
		}
		s.trimPodSpec(spec)
		return spec
	})
}

// wireAffinity returns the affinity of these bytes, or nil if they cannot be decoded. The
// pods of a DaemonSet have one affinity for each node.
func (s *sharing) wireAffinity(wire []byte) *v1.Affinity {
	return byWire(&s.affinities, wire, func() *v1.Affinity {
		affinity := new(v1.Affinity)
		if affinity.Unmarshal(wire) != nil {
			return nil
		}
		return affinity
	})
}

// wireLabels returns the labels of a pod's metadata from their concatenated encodings, or
// nil if they cannot be decoded.
func (s *sharing) wireLabels(wire []byte) map[string]string {
	return byWire(&s.wired, wire, func() map[string]string {
		var meta metav1.ObjectMeta
		if meta.Unmarshal(wire) != nil {
			return nil
		}
		return s.labels(meta.Labels)
	})
}

// byWire returns the value that was decoded from the same bytes before, or decodes it.
func byWire[M any](p *pool[M], wire []byte, decode func() M) M {
	if len(wire) > maxWire {
		return decode()
	}
	return p.share(wire, decode)
}

// rawPod unwraps a pod from the envelope with its type.
func rawPod(data []byte) (raw []byte, ok bool) {
	data, ok = bytes.CutPrefix(data, protobufMagic)
	if !ok {
		return nil, false
	}
	isPod := false
	ok = eachField(data, func(number protowire.Number, _, content []byte) bool {
		switch number {
		case unknownTypeMeta:
			var version, kind []byte
			if !eachField(content, func(number protowire.Number, _, content []byte) bool {
				switch number {
				case typeAPIVersion:
					version = content
				case typeKind:
					kind = content
				}
				return true
			}) {
				return false
			}
			isPod = string(version) == "v1" && string(kind) == "Pod"
		case unknownRaw:
			raw = content
		}
		return true
	})
	return raw, ok && isPod && raw != nil
}

// takeApart fills the pieces.
func (p *pieces) takeApart(raw []byte) bool {
	seen := 0
	ok := eachField(raw, func(number protowire.Number, _, content []byte) bool {
		if content == nil || seen&(1<<number) != 0 {
			return false
		}
		seen |= 1 << number
		switch number {
		case podMetadata:
			return p.takeMeta(content)
		case podSpec:
			return p.takeSpec(content)
		case podStatus:
			p.status = content
			return true
		}
		return false // the library decodes pods with unknown fields
	})
	return ok && seen == 1<<podMetadata|1<<podSpec|1<<podStatus
}

func (p *pieces) takeMeta(meta []byte) bool {
	return eachField(meta, func(number protowire.Number, field, content []byte) bool {
		switch number {
		case metaManagedFields:
			return content != nil
		case metaLabels:
			p.labels = append(p.labels, field...)
		default:
			p.meta = append(p.meta, field...)
		}
		return true
	})
}

func (p *pieces) takeSpec(spec []byte) bool {
	return eachField(spec, func(number protowire.Number, field, content []byte) bool {
		switch {
		case number == specVolumes:
			p.volumes = append(p.volumes, content)
		case number == specNodeName:
			p.nodeName = content
		case number == specAffinity:
			p.affinity, p.hasAffinity = append(p.affinity, content...), true
		case number == specContainers, number == specInitContainers:
			if content == nil || !p.takeContainer(content) {
				return false
			}
			p.spec = protowire.AppendTag(p.spec, number, protowire.BytesType)
			p.spec = protowire.AppendBytes(p.spec, p.container)
		case number == specSecurityContext && mayHaveOCI(content):
			p.spec = append(p.spec, field...)
		case specUnread.has(number):
		default:
			p.spec = append(p.spec, field...)
			return true
		}
		return content != nil
	})
}

// takeContainer copies a container without its unread fields. Mounts name volumes, whose
// names may be random, so they are kept only with bind mount options.
func (p *pieces) takeContainer(container []byte) bool {
	p.container = p.container[:0]
	return eachField(container, func(number protowire.Number, field, content []byte) bool {
		switch {
		case number == containerVolumeMounts:
			read := false
			if content == nil || !eachField(content, func(number protowire.Number, _, _ []byte) bool {
				read = read || number == mountBindOptions
				return true
			}) {
				return false
			}
			if !read {
				return true
			}
		case number == containerSecurityContext && mayHaveOCI(content):
		case containerUnread.has(number):
			return content != nil
		}
		p.container = append(p.container, field...)
		return true
	})
}

// mayHaveOCI reports whether a security context may have a seccomp profile of type OCI.
// Others differ from pod to pod and are not read.
func mayHaveOCI(content []byte) bool { return bytes.Contains(content, []byte("OCI")) }

// eachField visits the fields of a message: field is the whole field, content the value
// of a length-delimited field, nil for other types. It reports whether the whole message
// was readable and every visit returned true. A visitor returns false for a field that
// should be length-delimited and is not: then the library returns the error.
func eachField(message []byte, visit func(number protowire.Number, field, content []byte) bool) bool {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			return false
		}
		var content []byte
		if kind == protowire.BytesType {
			content, _ = protowire.ConsumeBytes(message[n:])
		}
		if !visit(number, message[:n+size:n+size], content) {
			return false
		}
		message = message[n+size:]
	}
	return true
}
