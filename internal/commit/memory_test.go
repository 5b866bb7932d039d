package commit_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/klog/v2/textlogger"

	"github.com/berth-scheduler/berth/internal/commit"
	"github.com/berth-scheduler/berth/internal/kube"
)

// pipes is a listener with connections in memory, so that server and client run in a
// bubble of testing/synctest: time passes only when both wait.
type pipes struct {
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
}

func newPipes() *pipes { return &pipes{connections: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.connections:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

// dial connects, unless the context defines how the connection breaks.
func (p *pipes) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	breaks, _ := ctx.Value(breaking{}).(string)
	if breaks == "refused" {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: p.Addr(), Err: syscall.ECONNREFUSED}
	}
	client, server := net.Pipe()
	select {
	case p.connections <- server:
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if breaks == "reset" {
		return resetting{client}, nil
	}
	return client, nil
}

// breaking is the context key for how the connection of a request breaks.
type breaking struct{}

// resetting is a connection over which a request can be sent, and which is reset before
// the response.
type resetting struct{ net.Conn }

func (r resetting) Read([]byte) (int, error) {
	_, err := r.Conn.Read(make([]byte, 1)) // the server has carried the request out
	if err == nil {
		err = syscall.ECONNRESET
	}
	_ = r.Close()
	return 0, &net.OpError{Op: "read", Net: "tcp", Err: err}
}

// sent is a request as the client saw it: its purpose, and when it was sent and answered.
type sent struct {
	what, pod  string // no pod of an event
	begin, end time.Time
	context    context.Context
}

// recorder records the requests of a client and breaks some of them.
type recorder struct {
	t  *testing.T
	to http.RoundTripper
	// breaks returns how the connection of a request breaks; empty if it does not.
	breaks func(what, pod string) string

	mu     sync.Mutex
	sent   []sent
	latest time.Time // when the latest request was sent
	atOnce int       // requests sent at that instant
}

// maxAtOnce is the maximum number of requests at one instant. The clock of a bubble
// stands still while requests follow each other, so a request repeated without a pause
// would run until go test's deadline.
const maxAtOnce = 1_000

// pace fails the test if too many requests are sent at one instant. Then it lets a minute
// of the bubble's clock pass, so that the repetition can end.
func (r *recorder) pace() {
	r.mu.Lock()
	now := time.Now()
	if !now.Equal(r.latest) {
		r.latest, r.atOnce = now, 0
	}
	r.atOnce++
	tooMany := r.atOnce > maxAtOnce
	r.mu.Unlock()
	if tooMany {
		r.t.Errorf("more than %d requests were sent at one instant", maxAtOnce)
		time.Sleep(time.Minute)
	}
}

func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.pace()
	s := sent{begin: time.Now(), context: request.Context()}
	s.what, s.pod = kindOf(request.Method, request.URL.Path)
	if how := r.breaks(s.what, s.pod); how != "" {
		request = request.WithContext(context.WithValue(request.Context(), breaking{}, how))
	}
	response, err := r.to.RoundTrip(request)
	s.end = time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent = append(r.sent, s)
	return response, err
}

// lines is a log that several goroutines write.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

// take returns the lines logged since its last call.
func (l *lines) take() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text.Next(l.text.Len()))
}

// fixture is a Commit with the real client and a server in memory, in the bubble of a
// test, not running yet. Its waits take no time.
type fixture struct {
	*commit.Commit
	server   *server
	recorder *recorder
	outcomes outcomes
	log      *lines
}

func newFixture(t *testing.T, change func(*commit.Config)) *fixture {
	t.Helper()
	f := &fixture{server: &server{bound: map[string]string{}}, recorder: &recorder{t: t, breaks: func(string, string) string { return "" }}, outcomes: make(outcomes, 1_000), log: &lines{}}
	f.server.changed = sync.NewCond(&f.server.mu)
	listener := newPipes()
	web := &http.Server{Handler: f.server}
	// The client must repeat nothing on another connection.
	web.SetKeepAlivesEnabled(false)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		_ = web.Close()
		serving.Wait()
	})
	access, err := kube.Access(kube.ClientConfig{Master: "http://127.0.0.1", ContentType: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	access.Dial = listener.dial
	access.Wrap(func(to http.RoundTripper) http.RoundTripper {
		f.recorder.to = to
		return f.recorder
	})
	client, err := kube.Connect(access)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := kube.NewWriter(client, false)
	if err != nil {
		t.Fatal(err)
	}
	config := commit.Config{
		Writer: writer, Binder: binder, Results: f.outcomes, Log: textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(f.log))),
		InFlight: 4, MaxBindings: 100, ReportsPerSecond: 10_000, MaxReports: 100, MaxSeries: 100,
		// Drain and Timeout differ, because the order of two timers at one instant is
		// random.
		Timeout: 10 * time.Second, EventPause: 2 * time.Second, Drain: 8 * time.Second,
	}
	if change != nil {
		change(&config)
	}
	if f.Commit, err = commit.New(config); err != nil {
		t.Fatal(err)
	}
	return f
}

// run runs the fixture's Commit until stop is called, which returns when Run has.
func (f *fixture) run(t *testing.T) (stop func(why error)) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.Run(ctx)
	}()
	stop = func(why error) {
		cancel(why)
		select {
		case <-done:
		case <-time.After(time.Hour):
			t.Error("Run does not return")
		}
	}
	t.Cleanup(func() {
		stop(errors.New("the test is over"))
		if err := f.Audit(); err != nil {
			t.Error(err)
		}
	})
	return stop
}

// inMemory is a fixture that runs with one worker.
type inMemory struct {
	*fixture
	stop func()
}

func newInMemory(t *testing.T, change func(*commit.Config)) *inMemory {
	t.Helper()
	f := newFixture(t, func(c *commit.Config) {
		c.InFlight, c.Drain = 1, 5*time.Second
		if change != nil {
			change(c)
		}
	})
	stop := f.run(t)
	return &inMemory{fixture: f, stop: sync.OnceFunc(func() { stop(errors.New("the test is over")) })}
}

var errorLine = regexp.MustCompile(`(?m)^E.*?\] "([^"]*)"`)

// errorsLogged returns the messages of the errors logged since its last call, each once,
// in order.
func (f *fixture) errorsLogged() []string {
	var messages []string
	for _, match := range errorLine.FindAllStringSubmatch(f.log.take(), -1) {
		if message, _, _ := strings.Cut(match[1], ","); !slices.Contains(messages, message) {
			messages = append(messages, message)
		}
	}
	return messages
}
