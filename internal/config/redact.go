package config

import (
	"bytes"
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/external/extender"
)

// redacted stands for the key of an extender where a configuration is shown. For a
// password in a URL it is redactedPassword, as in package net/url.
const redacted, redactedPassword = "REDACTED", "xxxxx"

// Shown returns a copy of the configuration for logs, pages and files. It is without secrets: the
// keys of extenders and the passwords in their URLs. Certificates are no secrets. The arguments of
// plugins from outside stay as they are: such plugins refer to Secrets or files. The arguments of
// NodeResourcesFit have the resources that extenders have it ignore.
func (c *Config) Shown() *configv1.KubeSchedulerConfiguration {
	shown := c.Source.DeepCopy()
	for i := range shown.Extenders {
		e := &shown.Extenders[i]
		e.URLPrefix = extender.Redacted(e.URLPrefix)
		if e.TLSConfig != nil && len(e.TLSConfig.KeyData) > 0 {
			e.TLSConfig.KeyData = []byte(redacted)
		}
	}
	ignored := ignoredByExtenders(shown.Extenders)
	for i := range shown.Profiles {
		for j := range shown.Profiles[i].PluginConfig {
			args := &shown.Profiles[i].PluginConfig[j].Args
			args.Object = ignoring(args.Object, ignored)
		}
	}
	return shown
}

// checkRedacted refuses a configuration that was shown: with it an extender would refuse
// every request, and an extender that may be ignored would be passed over.
func checkRedacted(e *configv1.Extender, path *field.Path) []error {
	var errs []error
	const put = "is redacted, as in a configuration that was written by --write-config-to; put in the "
	if e.TLSConfig != nil && bytes.Equal(e.TLSConfig.KeyData, []byte(redacted)) {
		errs = append(errs, field.Forbidden(path.Child("tlsConfig", "keyData"), put+"key, or name its file as keyFile"))
	}
	if u, err := url.Parse(e.URLPrefix); err == nil && u.User != nil {
		if password, _ := u.User.Password(); password == redactedPassword {
			errs = append(errs, field.Forbidden(path.Child("urlPrefix"), put+"password"))
		}
	}
	return errs
}
