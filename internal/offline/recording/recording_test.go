package recording_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/internal/config"
	"github.com/berth-scheduler/berth/internal/loop"
	"github.com/berth-scheduler/berth/internal/model"
	"github.com/berth-scheduler/berth/internal/model/plan"
	"github.com/berth-scheduler/berth/internal/offline/recording"
	"github.com/berth-scheduler/berth/internal/offline/simulate"
	"github.com/berth-scheduler/berth/internal/proof/build"
	"github.com/berth-scheduler/berth/internal/queue"
)

var write = flag.Bool("write", false, "write testdata/format-1.berth.zst")

// stored is a recording of the first version of the format. Later versions must read it
// and decide the same.
const stored = "testdata/format-1" + recording.Suffix

// buffer is a file in memory. After room bytes it is full.
type buffer struct {
	bytes.Buffer
	room int
}

func (b *buffer) Close() error { return nil }

var errDisk = errors.New("no space left on device")

func (b *buffer) Write(data []byte) (int, error) {
	if b.room > 0 && b.Len()+len(data) > b.room {
		return 0, errDisk
	}
	return b.Buffer.Write(data)
}

func header(t *testing.T, c *config.Config) *recording.Header {
	t.Helper()
	var text bytes.Buffer
	if err := c.Write(&text); err != nil {
		t.Fatal(err)
	}
	return &recording.Header{
		Berth: "v0.0.0", Release: c.Release().String(), Config: text.Bytes(), Seed: 7, GroupRetries: 3,
		MaxParked: queue.DefaultMaxParked, GroupPatience: time.Minute,
	}
}

// record records a cluster with placements, a preemption, a failed binding, and a pod
// that waits for a node.
func record(t *testing.T, to io.WriteCloser) {
	t.Helper()
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	w, err := recording.NewWriter(to, header(t, scheduler), 1<<30, func(reason error) { t.Error(reason) })
	if err != nil {
		t.Fatal(err)
	}
	c, err := simulate.New(simulate.Config{Scheduler: scheduler, Seed: 7, MaxParked: queue.DefaultMaxParked, GroupPatience: time.Minute, GroupRetries: 3, Recorder: func() loop.Recorder { return w }})
	if err != nil {
		t.Fatal(err)
	}
	until := func(d time.Duration) {
		if err := c.AdvanceTo(c.Now().Add(d), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a", "b"} {
		c.SetNode(build.Node(name, build.Allocatable("cpu=4 memory=8Gi pods=10")))
	}
	pod := func(name, requests string, priority int32) {
		c.SetPod(build.Pod(build.Named(name), build.Container(requests), func(p *v1.Pod) {
			p.Spec.Priority, p.CreationTimestamp = &priority, metav1.NewTime(c.Now())
		}))
	}
	c.FailBind(model.PodKey{Namespace: "default", Name: "web-1"}, simulate.Refused, 1)
	for i := range 4 {
		pod(fmt.Sprint("web-", i), "cpu=2", 0)
		until(time.Second)
	}
	pod("urgent", "cpu=3", 100)
	until(2 * time.Minute)
	pod("large", "cpu=8", 0)
	until(time.Minute)
	c.SetNode(build.Node("c", build.Allocatable("cpu=16 memory=8Gi pods=10")))
	until(time.Minute)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func open(data []byte) (*recording.Reader, error) {
	return recording.NewReader("file", io.NopCloser(bytes.NewReader(data)))
}

// replay replays a recording with its own configuration.
func replay(data []byte, until time.Time) (recording.Result, *recording.Replayer, error) {
	r, err := open(data)
	if err != nil {
		return recording.Result{}, nil, err
	}
	scheduler, err := r.Header.Scheduler()
	if err != nil {
		return recording.Result{}, nil, err
	}
	p, err := recording.Replay(r, scheduler)
	if err != nil {
		return recording.Result{}, nil, err
	}
	err = p.Run(until, func() error { return nil })
	return p.Result, p, err
}

// TestStoredRecording replays a recording in the file system. Its bytes depend on the
// compressor, so it is not compared with a new one.
func TestStoredRecording(t *testing.T) {
	if *write {
		var file buffer
		record(t, &file)
		if err := os.WriteFile(stored, file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(stored)
	if err != nil {
		t.Fatal(err)
	}
	result, p, err := replay(data, time.Time{})
	if err != nil || result.Difference != nil || result.Incomplete != "" || result.Decisions < 8 || result.Placed < 6 {
		t.Errorf("%v, %+v", err, result)
	}
	if n := len(p.Objects()); n < 7 {
		t.Errorf("%d objects", n)
	}
	early, p, err := replay(data, result.From.Add(90*time.Second))
	if err != nil || early.Difference != nil || early.Placed >= result.Placed || early.To.Sub(early.From) > 90*time.Second {
		t.Errorf("until a time: %v, %+v", err, early)
	}
	nodes := 0
	for _, object := range p.Objects() {
		if _, ok := object.(*v1.Node); ok {
			nodes++
		}
	}
	if nodes != 2 {
		t.Errorf("%d nodes before the third is added", nodes)
	}
}

// TestAnotherConfiguration finds the first decision that another seed or configuration
// makes differently.
func TestAnotherConfiguration(t *testing.T) {
	var file buffer
	record(t, &file)
	r, err := open(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := config.Parse("test", []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
		"profiles: [{plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := recording.Replay(r, scheduler)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(time.Time{}, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	d := p.Result.Difference
	if d == nil || d.Recorded.Pod != "default/urgent" || len(d.Recorded.Victims) == 0 || len(d.Replayed.Victims) != 0 {
		t.Errorf("%+v", p.Result)
	}
}

// TestAlteredRecording alters one entry, and sees the first difference there.
func TestAlteredRecording(t *testing.T) {
	var file buffer
	record(t, &file)
	zip, err := zstd.NewReader(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	// web-2 is created with another request, of the same length
	at := bytes.Index(plain, []byte("web-2"))
	amount := bytes.Index(plain[at:], []byte("\x01"+"2"))
	if at < 0 || amount < 0 {
		t.Fatal("the pod's request is not found")
	}
	altered := bytes.Clone(plain)
	altered[at+amount+1] = '5'
	result, _, err := replay(zipped(t, altered), time.Time{})
	if d := result.Difference; err != nil || d == nil || d.Recorded == nil || d.Recorded.Pod != "default/web-2" {
		t.Errorf("%v, %+v", err, result)
	}
	if result, _, err := replay(zipped(t, plain), time.Time{}); err != nil || result.Difference != nil {
		t.Errorf("without the change: %v, %+v", err, result)
	}
}

func zipped(t *testing.T, plain []byte) []byte {
	t.Helper()
	zip, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return zip.EncodeAll(plain, nil)
}

// TestDamagedRecording cuts a recording anywhere, and changes bytes of it. What remains
// is replayed, or an error names the file.
func TestDamagedRecording(t *testing.T) {
	var file buffer
	record(t, &file)
	zip, err := zstd.NewReader(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(zip)
	if err != nil {
		t.Fatal(err)
	}
	whole, _, err := replay(file.Bytes(), time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for n := 1; n < len(plain); n += 97 {
		result, _, err := replay(zipped(t, plain[:n]), time.Time{})
		switch {
		case err != nil && !strings.Contains(err.Error(), "file: "):
			t.Errorf("%d bytes: the error does not name the file: %v", n, err)
		case err == nil && result.Difference != nil:
			t.Errorf("%d bytes: %+v", n, result.Difference)
		case err == nil && result.Rounds < whole.Rounds:
			cut++
		}
	}
	if cut < 10 {
		t.Errorf("%d recordings were cut", cut)
	}
	data := file.Bytes()
	for n := 0; n < len(data); n += 13 {
		damaged := bytes.Clone(data)
		damaged[n] ^= 0x55
		_, _, _ = replay(damaged, time.Time{}) // must not panic, or take for ever
	}
	if _, _, err := replay(data[:len(data)-5], time.Time{}); err != nil { // as after a crash
		t.Error(err)
	}
}

// TestForeignFiles names the mistake.
func TestForeignFiles(t *testing.T) {
	const format = "\x0a\x02\x08\x63" // a header of format 99
	for text, want := range map[string]string{
		"": "not a recording of Berth", "apiVersion: v1": "not a recording of Berth",
		string(zipped(t, []byte("text"))):  "not a recording of Berth",
		string(zipped(t, []byte(format))):  "format 99: must be 1",
		string(zipped(t, []byte{0x0a, 9})): "not a recording of Berth",
	} {
		if _, err := open([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := recording.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestEndsOfRecordings ends a recording at its limit, at a full disk, and for a change
// that cannot be stored. The loop goes on, and the reason is in the file if it has room.
func TestEndsOfRecordings(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	node := model.NewNode(build.Node("a", build.Allocatable("cpu=4")))
	for name, test := range map[string]struct {
		room    int
		limit   int64
		changes []model.Change
		want    string
		noted   bool
	}{
		"limit":   {0, 2000, []model.Change{{Kind: model.NodeSet, Node: node}}, "size limit", true},
		"disk":    {3000, 1 << 30, []model.Change{{Kind: model.NodeSet, Node: node}}, errDisk.Error(), false},
		"unknown": {0, 1 << 30, []model.Change{{Kind: model.EventRaised}}, "cannot be recorded", true},
	} {
		file := &buffer{room: test.room}
		ended := make(chan error, 1)
		w, err := recording.NewWriter(file, header(t, scheduler), test.limit, func(reason error) { ended <- reason })
		if err != nil {
			t.Fatal(err)
		}
		for i := range 200_000 {
			w.Round(time.Unix(int64(i), int64(i*i)), time.Unix(int64(i), 0), true)
			w.Drained(test.changes)
		}
		if reason := <-ended; !strings.Contains(reason.Error(), test.want) {
			t.Errorf("%s: ended by %v", name, reason)
		}
		if err := w.Close(); (err != nil) != (name == "disk") {
			t.Errorf("%s: %v", name, err)
		}
		if !test.noted {
			continue
		}
		result, _, err := replay(file.Bytes(), time.Time{})
		if err != nil || !strings.Contains(result.Incomplete, test.want) || result.Difference != nil {
			t.Errorf("%s: %v, %+v", name, err, result)
		}
	}
}

// TestForgetsPods: a replay of weeks does not keep the pods of these weeks.
func TestForgetsPods(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	var file buffer
	w, err := recording.NewWriter(&file, header(t, scheduler), 1<<30, func(reason error) { t.Error(reason) })
	if err != nil {
		t.Fatal(err)
	}
	c, err := simulate.New(simulate.Config{Scheduler: scheduler, Seed: 7, MaxParked: queue.DefaultMaxParked, GroupPatience: time.Minute, GroupRetries: 3, Recorder: func() loop.Recorder { return w }})
	if err != nil {
		t.Fatal(err)
	}
	c.SetNode(build.Node("a", build.Allocatable("cpu=4 memory=8Gi pods=10")))
	for i := range 50 {
		name := fmt.Sprint("job-", i)
		c.SetPod(build.Pod(build.Named(name), build.Container("cpu=1"), func(p *v1.Pod) { p.UID = types.UID(name) }))
		for range 2 { // the pod runs for a minute
			if err := c.AdvanceTo(c.Now().Add(time.Minute), nil); err != nil {
				t.Fatal(err)
			}
			c.DeletePod(model.PodKey{Namespace: "default", Name: name})
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	result, p, err := replay(file.Bytes(), time.Time{})
	if err != nil || result.Difference != nil || result.Placed != 50 {
		t.Fatalf("%v, %+v", err, result)
	}
	if kept := p.Kept(); kept == 0 || kept > 10 {
		t.Errorf("%d pods of the last 100 minutes are kept, want those of about 10", kept)
	}
}

// TestEndWhileClosing ends a recording in the batch that Close writes: the file has the
// reason.
func TestEndWhileClosing(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	file, ended := &buffer{}, make(chan error, 1)
	w, err := recording.NewWriter(file, header(t, scheduler), 1<<30, func(reason error) { ended <- reason })
	if err != nil {
		t.Fatal(err)
	}
	w.Round(time.Unix(1, 0), time.Unix(1, 0), true)
	w.Drained([]model.Change{{Kind: model.EventRaised}})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case reason := <-ended:
		if !strings.Contains(reason.Error(), "cannot be recorded") {
			t.Error(reason)
		}
	default:
		t.Error("the end is not reported")
	}
	if result, _, err := replay(file.Bytes(), time.Time{}); err != nil || result.Incomplete == "" {
		t.Errorf("%v, %+v", err, result)
	}
}

// hanging is a disk that hangs while hangs is set, until it is released.
type hanging struct {
	buffer
	hangs   atomic.Bool
	release chan struct{}
}

func (h *hanging) Write(data []byte) (int, error) {
	if h.hangs.Load() {
		<-h.release
	}
	return h.buffer.Write(data)
}

// TestHangingDisk ends the recording, and reports it, while the disk still hangs. A first
// batch of any size is accepted.
func TestHangingDisk(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	file, ended := &hanging{release: make(chan struct{})}, make(chan error, 1)
	w, err := recording.NewWriter(file, header(t, scheduler), 1<<30, func(reason error) { ended <- reason })
	if err != nil {
		t.Fatal(err)
	}
	file.hangs.Store(true)
	changes := make([]model.Change, 300_000)
	for i := range changes {
		changes[i] = model.Change{Kind: model.NodeGone, Name: fmt.Sprint("node-", i)}
	}
	w.Drained(changes)
	for i := range 300_000 {
		w.Round(time.Unix(int64(i), 0), time.Unix(int64(i), 0), true)
	}
	if reason := <-ended; !strings.Contains(reason.Error(), "wait to be written") {
		t.Error(reason)
	}
	close(file.release)
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

// TestDecisionsAreCopied: an attempt is valid only during the round.
func TestDecisionsAreCopied(t *testing.T) {
	scheduler, err := config.Default()
	if err != nil {
		t.Fatal(err)
	}
	var file buffer
	w, err := recording.NewWriter(&file, header(t, scheduler), 1<<30, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := plan.ForPod(plan.QueuedPod{Pod: model.NewPod(build.Pod(build.Named("web")))})
	a.Members[0].Outcome, a.Members[0].Placement.NodeName = plan.Placed, "a"
	w.Round(time.Unix(5, 0), time.Unix(6, 0), true)
	w.Decided(a)
	a.Members[0].Placement.NodeName = "b"
	w.TookOver("me", time.Unix(7, 0))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := open(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	var got []recording.Entry
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	want := []recording.Entry{
		{Round: &recording.Round{Now: time.Unix(5, 0).UTC(), Wall: time.Unix(6, 0).UTC(), Decides: true}},
		{Decision: &recording.Decision{Pod: "default/web", UID: string(a.Members[0].Pod.UID), Outcome: "placed", Node: "a"}},
		{TakeOver: &recording.TakeOver{Leader: "me", Now: time.Unix(7, 0).UTC()}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// counter counts the bytes of a file, and keeps none.
type counter int64

func (c *counter) Close() error { return nil }
func (c *counter) Write(data []byte) (n int, err error) {
	*c += counter(len(data))
	return len(data), nil
}

// BenchmarkRecording schedules 20,000 pods of 200 apps on 1,000 nodes in memory, with and
// without a recording: time and CPU of the whole process for each pod, and the bytes of
// the file.
func BenchmarkRecording(b *testing.B) {
	size := simulate.Size{Nodes: 1000, Pods: 20_000, Zones: 3, Apps: 200}
	if testing.Short() {
		size.Nodes, size.Pods, size.Apps = 10, 100, 5
	}
	for _, records := range []bool{false, true} {
		b.Run(fmt.Sprint("recorded=", records), func(b *testing.B) {
			scheduler, err := config.Default()
			if err != nil {
				b.Fatal(err)
			}
			var bytes counter
			for b.Loop() {
				c := simulate.Config{Scheduler: scheduler, Pods: &size}
				var writers []*recording.Writer
				if records {
					c.Recorder = func() loop.Recorder {
						w, err := recording.NewWriter(&bytes, &recording.Header{Release: "1.37"}, 1<<40, func(reason error) { b.Error(reason) })
						if err != nil {
							b.Fatal(err)
						}
						writers = append(writers, w)
						return w
					}
				}
				if _, err := simulate.Run(c, size.WithoutPods(), nil); err != nil {
					b.Fatal(err)
				}
				for _, w := range writers {
					_ = w.Close()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size.Pods), "ns/pod")
			b.ReportMetric(float64(bytes)/float64(b.N*size.Pods), "filebytes/pod")
		})
	}
}
