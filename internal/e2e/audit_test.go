package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// auditLog is the API server's log of the requests that testdata/audit.yaml selects, of all tests together.
var auditLog string

// audited is a request that the API server has answered.
type audited struct {
	Verb      string `json:"verb"`
	User      struct{ Username string }
	ObjectRef struct {
		Resource, Subresource, Namespace, Name, UID string
	} `json:"objectRef"`
	ResponseStatus           struct{ Code int }
	RequestObject            json.RawMessage `json:"requestObject"`
	ResponseObject           json.RawMessage `json:"responseObject"`
	RequestReceivedTimestamp time.Time       `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time       `json:"stageTimestamp"`
}

// stored reports whether the API server did what was asked for.
func (a *audited) stored() bool { return a.ResponseStatus.Code >= 200 && a.ResponseStatus.Code < 300 }

// what is the kind of request: verb, resource and subresource.
func (a *audited) what() string {
	return strings.TrimSuffix(a.Verb+" "+a.ObjectRef.Resource+"/"+a.ObjectRef.Subresource, "/")
}

// audit calls do for each request about objects of the test's namespace, and about objects without one, in the order of the responses.
func (w *world) audit(do func(a *audited)) {
	w.Helper()
	file, err := os.Open(auditLog)
	w.must(err)
	defer file.Close()
	lines := bufio.NewReaderSize(file, 1<<20)
	ours := fmt.Appendf(nil, `"namespace":%q`, w.namespace)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return // the last line may not be written to its end
		}
		if !bytes.Contains(line, ours) && !bytes.Contains(line, []byte(`"resource":"persistentvolumes"`)) {
			continue
		}
		a := &audited{}
		w.must(json.Unmarshal(line, a))
		if a.ObjectRef.Namespace == "" || a.ObjectRef.Namespace == w.namespace {
			do(a)
		}
	}
}
