//go:build !unix

package app

import "context"

// dumpWhenAsked does nothing: this platform has no SIGUSR2.
func (s *scheduler) dumpWhenAsked(context.Context) (stop func()) { return func() {} }
