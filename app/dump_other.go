//go:build !unix

package app

import "context"

// dumpWhenAsked does nothing where there is no SIGUSR2.
func (s *scheduler) dumpWhenAsked(context.Context) (stop func()) { return func() {} }
