package config

import (
	"bytes"
	"net/url"

	"k8s.io/apimachinery/pkg/util/validation/field"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/internal/external/extender"
)

// redacted replaces an extender's key in a printed configuration. redactedPassword
// replaces a password in a URL, as in package net/url.
const redacted, redactedPassword = "REDACTED", "xxxxx"

// Shown returns a copy of the configuration for logs, pages and files. It has no secrets:
// the keys of extenders and the passwords in their URLs are redacted. Certificates are
// not secrets. The arguments of out-of-tree plugins are unchanged, because such plugins
// refer to Secrets or files. The arguments of NodeResourcesFit include the resources that
// it ignores for extenders.
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

// checkRedacted rejects a redacted configuration. With it an extender would reject every
// request, and an ignorable extender would be skipped.
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
