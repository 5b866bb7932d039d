package kube

import (
	"bytes"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/internal/model"
)

// Pods that a controller made from one template differ in little: name, node, volumes. Reading each by itself decodes the same specs ten
// thousands of times, and keeps them as often. So the watch of pods reads protobuf by halves: of a pod's spec it takes out what differs,
// and looks the rest up by its bytes. Only a rest that nobody has seen is decoded, by the library, and trimmed. What comes out is what
// decoding and trimming the whole pod would have given, but specs of one template share their containers, tolerations, affinity and so on.

// Client is a client of an API server, with another for the watch of pods.
type Client struct {
	kubernetes.Interface
	pods kubernetes.Interface
}

// newClient builds both on one HTTP client.
func newClient(access *rest.Config) (*Client, error) {
	transport, err := rest.HTTPClientFor(access)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfigAndClient(access, transport)
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(access)
	config.GroupVersion, config.APIPath = &v1.SchemeGroupVersion, "/api"
	config.NegotiatedSerializer = trimmingCodecs{scheme.Codecs.WithoutConversion(), new(sharing)}
	pods, err := rest.RESTClientForConfigAndClient(config, transport)
	if err != nil {
		return nil, err
	}
	return &Client{client, podClient{client, corev1.New(pods)}}, nil
}

// podClient is a client whose pods come trimmed.
type podClient struct {
	kubernetes.Interface
	core corev1.CoreV1Interface
}

// CoreV1 returns the part of the API that pods belong to.
func (c podClient) CoreV1() corev1.CoreV1Interface { return c.core }

// trimmingCodecs decode objects of every media type trimmed.
type trimmingCodecs struct {
	runtime.NegotiatedSerializer
	shared *sharing
}

// SupportedMediaTypes are those of the codecs beneath.
func (c trimmingCodecs) SupportedMediaTypes() []runtime.SerializerInfo {
	infos := c.NegotiatedSerializer.SupportedMediaTypes()
	trimming := make([]runtime.SerializerInfo, len(infos))
	for i, info := range infos {
		info.Serializer = &trimmingSerializer{info.Serializer, c.shared, info.MediaType == runtime.ContentTypeProtobuf}
		trimming[i] = info
	}
	return trimming
}

// trimmingSerializer decodes pods and lists of pods trimmed. They must not be trimmed again: what they share would be written.
type trimmingSerializer struct {
	runtime.Serializer
	shared   *sharing
	protobuf bool
}

// Decode decodes an object.
func (s *trimmingSerializer) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if into == nil && s.protobuf {
		if pod, ok := s.shared.decodePod(data); ok {
			kind := podKind
			return pod, &kind, nil
		}
	}
	object, kind, err := s.Serializer.Decode(data, defaults, into)
	switch o := object.(type) {
	case *v1.Pod:
		s.trim(o)
	case *v1.PodList:
		for i := range o.Items {
			s.trim(&o.Items[i])
		}
	}
	return object, kind, err
}

// trim trims a pod, but not a bookmark: that has no name, and client-go reads its annotations.
func (s *trimmingSerializer) trim(pod *v1.Pod) {
	if pod != nil && pod.Name != "" {
		s.shared.trimPod(pod)
	}
}

var podKind = v1.SchemeGroupVersion.WithKind("Pod")

// The numbers of fields that are taken apart here, of k8s.io/apimachinery/pkg/runtime/generated.proto, its meta/v1, and
// k8s.io/api/core/v1/generated.proto.
const (
	unknownTypeMeta, unknownRaw = 1, 2
	typeAPIVersion, typeKind    = 1, 2

	podMetadata, podSpec, podStatus = 1, 2, 3

	metaLabels, metaManagedFields = 11, 17

	specVolumes, specContainers, specNodeName, specHostname, specSubdomain, specInitContainers = 1, 2, 10, 16, 17, 20

	containerVolumeMounts = 9
	mountBindOptions      = 8
)

// protobufMagic is what an object begins with that the API server sends as protobuf.
var protobufMagic = []byte("k8s\x00")

// template is the part of a spec that pods of one origin share, trimmed. It is never written.
type template struct {
	spec v1.PodSpec
	err  error
}

// templateMax is how long a shared part may be, in bytes: pods that bring more are hardly many.
const templateMax = 8 << 10

// pieces is what a pod is taken apart into. The slices are used again for the next pod.
type pieces struct {
	meta, labels, spec []byte
	containers, mounts []byte // room for what is being taken apart
	volumes            [][]byte
	nodeName           []byte
	status             []byte
}

var piecesPool = sync.Pool{New: func() any { return new(pieces) }}

// decodePod decodes a pod from what the API server sent. It leaves what is not a pod, what has no name (a bookmark), and what it cannot
// make sense of to the library, whose errors are the right ones.
func (s *sharing) decodePod(data []byte) (pod *v1.Pod, ok bool) {
	raw, ok := rawPod(data)
	if !ok {
		return nil, false
	}
	p := piecesPool.Get().(*pieces)
	defer piecesPool.Put(p)
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
		if pod.Labels, ok = s.wireLabels(p.labels); !ok {
			return nil, false
		}
	}
	if pod.Spec, ok = s.wireSpec(p.spec); !ok {
		return nil, false
	}
	pod.Spec.NodeName = model.Interned(string(p.nodeName))
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

// wireSpec returns the trimmed spec of these bytes, which must hold nothing that only one pod has.
func (s *sharing) wireSpec(wire []byte) (v1.PodSpec, bool) {
	build := func() *template {
		t := new(template)
		if t.err = t.spec.Unmarshal(wire); t.err == nil {
			s.trimPodSpec(&t.spec)
		}
		return t
	}
	t := (*template)(nil)
	if len(wire) > templateMax {
		t = build()
	} else {
		t = s.templates.share(wire, build)
	}
	return t.spec, t.err == nil
}

// wireLabels returns the labels that are encoded one after another as a pod's metadata holds them.
func (s *sharing) wireLabels(wire []byte) (map[string]string, bool) {
	if len(wire) > templateMax {
		return decodeLabels(wire)
	}
	ok := true
	shared := s.wired.share(wire, func() (labels map[string]string) {
		labels, ok = decodeLabels(wire)
		return s.labels(labels)
	})
	return shared, ok && shared != nil
}

func decodeLabels(wire []byte) (map[string]string, bool) {
	var meta metav1.ObjectMeta
	err := meta.Unmarshal(wire)
	return meta.Labels, err == nil
}

// rawPod unwraps a pod from the envelope that says what it is.
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
	p.meta, p.labels, p.spec, p.volumes, p.nodeName, p.status = p.meta[:0], p.labels[:0], p.spec[:0], p.volumes[:0], nil, nil
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
		return false // what we have not heard of is the library's
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
		switch number {
		case specVolumes:
			p.volumes = append(p.volumes, content)
			return content != nil
		case specNodeName:
			p.nodeName = content
			return content != nil
		case specHostname, specSubdomain: // nobody reads them
			return content != nil
		case specContainers, specInitContainers:
			if content == nil || !p.takeContainer(content) {
				return false
			}
			p.spec = protowire.AppendTag(p.spec, number, protowire.BytesType)
			p.spec = protowire.AppendBytes(p.spec, p.containers)
		default:
			p.spec = append(p.spec, field...)
		}
		return true
	})
}

// takeContainer leaves a container without its mounts, which name volumes that may bear random names. Only those stay that somebody
// reads.
func (p *pieces) takeContainer(container []byte) bool {
	p.containers = p.containers[:0]
	return eachField(container, func(number protowire.Number, field, content []byte) bool {
		keep := number != containerVolumeMounts
		if !keep && !eachField(content, func(number protowire.Number, _, _ []byte) bool {
			keep = keep || number == mountBindOptions
			return true
		}) {
			return false
		}
		if keep {
			p.containers = append(p.containers, field...)
		}
		return true
	})
}

// eachField walks the fields of a message: field is all of it, content what a field of bytes holds, nil for those of other types. It
// reports whether the message could be read to its end and every visit went well. What a visitor takes out must hold bytes, or the library
// is to say what is wrong.
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
