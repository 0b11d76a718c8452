package notify

import (
	"context"
	"errors"
)

// Slack is an incoming webhook.
type Slack struct {
	Enabled    *bool  `yaml:"enabled"`
	WebhookURL string `yaml:"webhook_url"`
	Channel    string `yaml:"channel"`
	Username   string `yaml:"username"`
}

func (s *Slack) validate() error {
	if !isAddress(s.WebhookURL) {
		return errors.New("webhook_url: want the address of an incoming webhook")
	}
	return nil
}

func (s *Slack) send(ctx context.Context, subject, text string) error {
	message := map[string]string{"text": subject + "\n" + text}
	for key, value := range map[string]string{"channel": s.Channel, "username": s.Username} {
		if value != "" {
			message[key] = value
		}
	}
	_, err := post(ctx, s.WebhookURL, message)
	return err
}
