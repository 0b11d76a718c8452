// Package notify sends short texts to people: to Slack, to DingTalk, by mail.
package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Config says where texts go. Its keys are those of Data-Juicer's notification_config.
type Config struct {
	Enabled  bool      `yaml:"enabled"` // false sends nothing
	Slack    *Slack    `yaml:"slack"`
	DingTalk *DingTalk `yaml:"dingtalk"`
	Email    *Email    `yaml:"email"`
}

// channel is one way to people.
type channel interface {
	validate() error
	send(ctx context.Context, subject, text string) error
}

// timeout of one way.
const timeout = 20 * time.Second

// channels that are on, by name.
func (c *Config) channels() map[string]channel {
	on := map[string]channel{}
	if !c.Enabled {
		return on
	}
	if s := c.Slack; s != nil && isOn(s.Enabled) {
		on["slack"] = s
	}
	if d := c.DingTalk; d != nil && isOn(d.Enabled) {
		on["dingtalk"] = d
	}
	if e := c.Email; e != nil && isOn(e.Enabled) {
		on["email"] = e
	}
	return on
}

// isOn reads a switch that is on unless it is set to false.
func isOn(enabled *bool) bool { return enabled == nil || *enabled }

// Validate looks at the settings of what is on.
func (c *Config) Validate() error {
	on := c.channels()
	if c.Enabled && len(on) == 0 {
		return errors.New("enabled, but no slack, dingtalk or email is set: name one, or set enabled: false")
	}
	for name, way := range on {
		if err := way.validate(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Send sends to all that is on. Of errors there is one for each way that failed; no error tells a secret.
func (c *Config) Send(ctx context.Context, subject, text string) error {
	var errs []error
	for name, way := range c.channels() {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		if err := way.send(ctx, subject, text); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		cancel()
	}
	return errors.Join(errs...)
}

// post sends JSON and returns the answer, which must have status 200.
func post(ctx context.Context, address string, message any) ([]byte, error) {
	data, err := json.Marshal(message)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
	if err != nil {
		return nil, withoutAddress(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, withoutAddress(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<16))
	if err != nil {
		return nil, withoutAddress(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.200s", resp.Status, answer)
	}
	return answer, nil
}

// withoutAddress is an error without the address, which holds a secret.
func withoutAddress(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// isAddress reports whether a text is an http address.
func isAddress(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
