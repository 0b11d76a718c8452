package notify

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/smtp"
	"net/url"
	"strings"
	"testing"
	"time"
)

var off = false

// receiver answers every post with a status and a text, and keeps the last.
func receiver(t *testing.T, status int, answer string) (s *httptest.Server, got *map[string]any) {
	t.Helper()
	got = &map[string]any{}
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(got); err != nil {
			t.Error(err)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer) // the client complains
	}))
	t.Cleanup(s.Close)
	return s, got
}

func TestSlack(t *testing.T) {
	s, got := receiver(t, 200, "ok")
	c := Config{Enabled: true, Slack: &Slack{WebhookURL: s.URL + "/services/secret", Channel: "#people"}}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(t.Context(), "subject", "text <b>"); err != nil {
		t.Fatal(err)
	}
	if want := map[string]any{"text": "subject\ntext <b>", "channel": "#people"}; !maps.Equal(*got, want) {
		t.Errorf("sent %v, want %v", *got, want)
	}
	s.Close()
	if err := c.Send(t.Context(), "", ""); err == nil || !strings.HasPrefix(err.Error(), "slack: ") || strings.Contains(err.Error(), "secret") {
		t.Errorf("to nobody: %v", err)
	}
	s, _ = receiver(t, 404, "no_service")
	c.Slack.WebhookURL = s.URL
	if err := c.Send(t.Context(), "", ""); err == nil || !strings.Contains(err.Error(), "slack: 404 Not Found: no_service") {
		t.Errorf("refused: %v", err)
	}
}

func TestDingTalk(t *testing.T) {
	s, got := receiver(t, 200, `{"errcode":0,"errmsg":"ok"}`)
	d := &DingTalk{AccessToken: "token", server: s.URL}
	c := Config{Enabled: true, DingTalk: d}
	if err := c.Send(t.Context(), "subject", "text"); err != nil || fmt.Sprint(*got) != "map[msgtype:text text:map[content:subject\ntext]]" {
		t.Errorf("sent %v, %v", *got, err)
	}
	s, _ = receiver(t, 200, `{"errcode":310000,"errmsg":"sign not match"}`)
	d.server = s.URL
	if err := c.Send(t.Context(), "", ""); err == nil || err.Error() != "dingtalk: error 310000: sign not match" {
		t.Errorf("refused: %v", err)
	}
	at, err := url.Parse((&DingTalk{AccessToken: "a&b", Secret: "s3cret"}).address(time.UnixMilli(1700000000123)))
	if err != nil {
		t.Fatal(err)
	}
	q := at.Query()
	if at.Host != "oapi.dingtalk.com" || q.Get("access_token") != "a&b" || q.Get("timestamp") != "1700000000123" || q.Get("sign") != "Q/Gu1K6gif//XkCNhmmMXCz3dFOshDi118WieTgZpto=" {
		t.Errorf("the address is %s", at)
	}
}

// mailbox is a mail server that takes one mail; what it was told comes through the channel.
func mailbox(t *testing.T, secure *tls.Config) (port int, told <-chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	all := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		if secure != nil {
			conn = tls.Server(conn, secure)
		}
		defer conn.Close()
		var b strings.Builder
		defer func() { all <- b.String() }()
		lines := bufio.NewScanner(conn)
		fmt.Fprint(conn, "220 here\r\n")
		for data := false; lines.Scan(); {
			b.WriteString(lines.Text() + "\n")
			switch word, _, _ := strings.Cut(lines.Text(), " "); {
			case data && lines.Text() != ".":
			case word == "EHLO":
				fmt.Fprint(conn, "250-here\r\n250 AUTH PLAIN\r\n")
			case word == "AUTH":
				fmt.Fprint(conn, "235 yes\r\n")
			case word == "DATA":
				data = true
				fmt.Fprint(conn, "354 go on\r\n")
			case word == "QUIT":
				fmt.Fprint(conn, "221 bye\r\n")
				return
			default:
				data = false
				fmt.Fprint(conn, "250 ok\r\n")
			}
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, all
}

func TestEmail(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate, which is for 127.0.0.1
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	for name, secure := range map[string]*tls.Config{"TLS": web.TLS, "in the clear to this machine": nil} {
		port, told := mailbox(t, secure)
		over := secure != nil
		e := &Email{Server: "127.0.0.1", Port: port, UseSSL: &over, SenderEmail: "me@example.com", SenderName: "Trinity", Password: "pw", Recipients: []string{"you@example.com", "B <b@example.com>"}, roots: roots}
		c := Config{Enabled: true, Email: e}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if err := c.Send(t.Context(), "tasks wait\r\nBcc: x@example.com", "é at http://x"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := <-told
		for _, want := range []string{
			"AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00me@example.com\x00pw")), "MAIL FROM:<me@example.com>", "RCPT TO:<you@example.com>\nRCPT TO:<b@example.com>",
			`From: "Trinity" <me@example.com>`, "To: you@example.com, B <b@example.com>", "\n\n=C3=A9 at http://x\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%s: it lacks %q:\n%s", name, want, got)
			}
		}
		if strings.Contains(got, "\nBcc:") {
			t.Errorf("%s: the subject made a header:\n%s", name, got)
		}
	}
}

func TestAPasswordIsNotSentInTheClear(t *testing.T) {
	port, told := mailbox(t, nil)
	conn, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		t.Fatal(err)
	}
	client, err := smtp.NewClient(conn, "mail.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := (&Email{Server: "mail.example.com", SenderEmail: "me@example.com", Password: "pw"}).login(client); err == nil {
		t.Error("it was sent")
	}
	client.Close()
	if got := <-told; strings.Contains(got, "AUTH PLAIN") {
		t.Errorf("the server was told %s", got)
	}
}

func TestOffIsOff(t *testing.T) {
	s, got := receiver(t, 200, "ok")
	for _, c := range []Config{{}, {Slack: &Slack{WebhookURL: s.URL}}, {Enabled: true, Slack: &Slack{WebhookURL: s.URL, Enabled: &off}, Email: &Email{Enabled: &off}, DingTalk: &DingTalk{Enabled: &off}}} {
		if err := c.Send(t.Context(), "", "x"); err != nil || len(*got) > 0 {
			t.Errorf("%+v sends %v, %v", c, *got, err)
		}
	}
}

func TestValidate(t *testing.T) {
	for want, c := range map[string]Config{
		"":                          {},
		"no slack, dingtalk or":     {Enabled: true},
		"slack: webhook_url":        {Enabled: true, Slack: &Slack{WebhookURL: "x"}},
		"dingtalk: access_token":    {Enabled: true, DingTalk: &DingTalk{}},
		"email: smtp_server":        {Enabled: true, Email: &Email{}},
		"email: recipients":         {Enabled: true, Email: &Email{Server: "s"}},
		`email: "" is no mail addr`: {Enabled: true, Email: &Email{Server: "s", Recipients: []string{"a@b"}}},
		`"nobody" is no mail addre`: {Enabled: true, Email: &Email{Server: "s", SenderEmail: "a@b", Recipients: []string{"nobody"}}},
	} {
		if err := c.Validate(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}
