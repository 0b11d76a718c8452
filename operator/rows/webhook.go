package rows

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/trinity-go/trinity/internal/retry"
)

// notifications says where the operator notifies people. Its keys equal those of Data-Juicer's
// notification_config.
type notifications struct {
	Enabled  bool           `yaml:"enabled"` // false sends nothing
	Slack    *webhook       `yaml:"slack"`
	DingTalk map[string]any `yaml:"dingtalk" secret:"true"` // an error unless it sets enabled: false
	Email    map[string]any `yaml:"email" secret:"true"`    // an error unless it sets enabled: false
}

// webhook is an incoming webhook of Slack, or of a program that takes the same messages, such as
// Mattermost.
type webhook struct {
	Enabled  *bool  `yaml:"enabled"` // nil is true
	URL      string `yaml:"webhook_url" secret:"true"`
	Channel  string `yaml:"channel"`
	Username string `yaml:"username"`
}

const webhookTimeout = 20 * time.Second

// Validate returns an error if something is missing or a channel is not supported.
func (n *notifications) Validate() error {
	if !n.Enabled {
		return nil
	}
	for name, channel := range map[string]map[string]any{"dingtalk": n.DingTalk, "email": n.Email} {
		if channel != nil && channel["enabled"] != false {
			return fmt.Errorf("%s: not supported: use slack with a webhook_url that forwards, or set %s.enabled to false", name, name)
		}
	}
	switch w := n.webhook(); {
	case w == nil:
		return errors.New("enabled, but no slack is set: set slack.webhook_url, or enabled to false")
	case !isHTTP(w.URL):
		return errors.New("slack: webhook_url: want the http or https address of an incoming webhook")
	}
	return nil
}

// webhook returns the webhook to notify, or nil if none is enabled.
func (n *notifications) webhook() *webhook {
	if w := n.Slack; n.Enabled && w != nil && (w.Enabled == nil || *w.Enabled) {
		return w
	}
	return nil
}

// Send posts subject and text if a webhook is enabled. Errors do not contain the webhook's address,
// which is a secret.
func (n *notifications) Send(ctx context.Context, subject, text string) error {
	w := n.webhook()
	if w == nil {
		return nil
	}
	message := map[string]string{"text": subject + "\n" + text}
	for key, value := range map[string]string{"channel": w.Channel, "username": w.Username} {
		if value != "" {
			message[key] = value
		}
	}
	client := retry.Client{Name: "slack", Timeout: webhookTimeout}
	return client.JSON(ctx, retry.Request{Method: http.MethodPost, URL: w.URL}, message, nil)
}

// isHTTP reports whether a text is an absolute http or https URL.
func isHTTP(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}
