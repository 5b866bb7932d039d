package app

import (
	"net/url"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/klog/v2"
)

// printFlags logs the flags as kube-scheduler does, with passwords in URLs redacted.
func printFlags(flags *pflag.FlagSet) {
	flags.VisitAll(func(flag *pflag.Flag) {
		klog.V(1).Infof("FLAG: --%s=%q", flag.Name, withoutPassword(flag.Value.String()))
	})
}

// shownFlags are the flags with passwords in URLs redacted.
type shownFlags struct{ flagz.Reader }

// GetFlagz returns the values of the flags.
func (s shownFlags) GetFlagz() map[string]string {
	shown := s.Reader.GetFlagz()
	for name, value := range shown {
		shown[name] = withoutPassword(value)
	}
	return shown
}

// withoutPassword redacts the password if the text is a URL that has one.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return text
	}
	if _, secret := u.User.Password(); !secret {
		return text
	}
	return u.Redacted()
}
