package app

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/internal/config"
)

// writeConfig logs the configuration with its defaults at level 2, and writes it to the
// file of --write-config-to.
func (o *options) writeConfig(c *config.Config) error {
	log := klog.Background()
	if !log.V(2).Enabled() && o.writeConfigTo == "" {
		return nil
	}
	var text strings.Builder
	if err := c.Write(&text); err != nil {
		return err
	}
	log.V(2).Info("Using component config", "config", text.String())
	if o.writeConfigTo == "" {
		return nil
	}
	// The umask removes permissions.
	if err := os.WriteFile(o.writeConfigTo, []byte(text.String()), 0o666); err != nil {
		return usage(fmt.Errorf("--write-config-to: %w", err))
	}
	log.Info("Wrote configuration", "file", o.writeConfigTo)
	return nil
}
