package framework

import (
	"errors"
	"fmt"
	"strings"

	fwk "k8s.io/kube-scheduler/framework"
)

// outcome is the content of a plugin's status. It is read where plugins run, because the
// texts of errors are methods of plugins.
type outcome struct {
	code fwk.Code
	// reasons are the reasons of a rejection.
	reasons []string
	// err is set if code is Error.
	err error
}

// codes is a set of status codes.
type codes uint

const (
	success      = codes(1) << fwk.Success
	failing      = codes(1) << fwk.Error
	unresolvable = codes(1) << fwk.UnschedulableAndUnresolvable
	waits        = codes(1) << fwk.Wait
	skips        = codes(1) << fwk.Skip
	rejecting    = codes(1)<<fwk.Unschedulable | unresolvable | codes(1)<<fwk.Pending
)

// codeNames are kube-scheduler's names of the codes. Code.String panics for others.
var codeNames = [...]string{
	fwk.Success: "Success", fwk.Error: "Error", fwk.Unschedulable: "Unschedulable", fwk.UnschedulableAndUnresolvable: "UnschedulableAndUnresolvable",
	fwk.Wait: "Wait", fwk.Skip: "Skip", fwk.Pending: "Pending",
}

// nameOf returns the name of a code, or its number.
func nameOf(code fwk.Code) string {
	if code < 0 || int(code) >= len(codeNames) {
		return fmt.Sprintf("the status code %d", int(code))
	}
	return codeNames[code]
}

// String lists the codes.
func (c codes) String() string {
	var list []string
	for code, name := range codeNames {
		if c&(1<<code) != 0 {
			list = append(list, name)
		}
	}
	if last := len(list) - 1; last > 0 {
		return strings.Join(list[:last], ", ") + " or " + list[last]
	}
	return strings.Join(list, "")
}

// has reports whether the set contains the code.
func (c codes) has(code fwk.Code) bool {
	return code >= 0 && int(code) < len(codeNames) && c&(1<<code) != 0
}

// read returns the content of a status. A code that the extension point does not allow is
// an error.
func read(s *fwk.Status, point Point, allowed codes) outcome {
	code := s.Code()
	switch {
	case code == fwk.Success && allowed.has(code):
		return outcome{}
	case !allowed.has(code):
		text := fmt.Sprintf("returned %s at %s, which is unsupported: it is supposed to return %v", nameOf(code), point, allowed)
		if message := s.Message(); message != "" {
			text += ": " + message
		}
		return outcome{code: fwk.Error, err: errors.New(text)}
	case code == fwk.Error:
		return outcome{code: code, err: said(s.AsError())}
	}
	return outcome{code: code, reasons: s.Reasons()}
}

// isRejection reports whether the plugin rejected the pod.
func (o *outcome) isRejection() bool { return rejecting.has(o.code) }

// message joins the reasons as kube-scheduler does.
func (o *outcome) message() string { return strings.Join(o.reasons, ", ") }

// saidError is a plugin's error with its text, which was computed where plugins run.
type saidError struct {
	text string
	err  error
}

func said(err error) error { return &saidError{err.Error(), err} }

// Error returns the text.
func (e *saidError) Error() string { return e.text }

// Unwrap returns the plugin's error.
func (e *saidError) Unwrap() error { return e.err }

// asError returns the status as an error, with rejections as errors; nil for Success,
// Skip and Wait.
func (o *outcome) asError() error {
	if o.isRejection() {
		return errors.New(o.message())
	}
	return o.err
}
