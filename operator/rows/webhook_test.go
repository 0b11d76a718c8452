package rows

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWebhookPostsMessages(t *testing.T) {
	got, status := map[string]string{}, http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "no_service")
	}))
	defer s.Close()
	n := notifications{Enabled: true, Slack: &webhook{URL: s.URL + "/secret", Channel: "#people"}}
	if err := n.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := n.Send(t.Context(), "subject", "text <b>"); err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"text": "subject\ntext <b>", "channel": "#people"}; !maps.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
	status = http.StatusNotFound
	if err := n.Send(t.Context(), "", ""); err == nil || err.Error() != "slack: 404 Not Found: no_service" {
		t.Errorf("refused: %v", err)
	}
	s.Close()
	if err := n.Send(t.Context(), "", ""); err == nil || !strings.HasPrefix(err.Error(), "slack: ") ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("no server: %v", err)
	}
}

func TestNotificationsAreValidated(t *testing.T) {
	off := false
	for _, c := range []struct {
		n    notifications
		want string // "" is valid
	}{
		{notifications{}, ""},
		{notifications{Slack: &webhook{}, Email: map[string]any{"recipients": 1}}, ""},
		{notifications{Enabled: true}, "no slack is set"},
		{notifications{Enabled: true, Slack: &webhook{Enabled: &off}}, "no slack is set"},
		{notifications{Enabled: true, Slack: &webhook{URL: "hooks.example"}}, "slack: webhook_url"},
		{notifications{Enabled: true, Slack: &webhook{URL: "http://a"}, Email: map[string]any{"enabled": false}}, ""},
		{notifications{Enabled: true, Slack: &webhook{URL: "http://a"}, Email: map[string]any{}}, "email: not supported"},
		{notifications{Enabled: true, DingTalk: map[string]any{"access_token": "x"}}, "dingtalk: not supported"},
	} {
		if err := c.n.Validate(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.n, err, c.want)
		}
	}
}
