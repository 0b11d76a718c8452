package cli_test

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The studio shows the runs of a directory until Ctrl-C. Whom other machines may be needs the token.
func TestStudioServesRuns(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals to send to a process")
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "p/r/monitor"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ addr, needs string }{{"127.0.0.1:0", ""}, {"0.0.0.0:0", "token"}} {
		s := serveWith(t, "The studio is at ", "studio", "--dir", dir, "--addr", c.addr)
		runs := func(token string) (int, string) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"api/v1/runs", nil)
			if err != nil {
				t.Fatal(err)
			}
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return resp.StatusCode, string(text)
		}
		if status, text := runs(s.token); status != http.StatusOK || !strings.Contains(text, `"id":"p/r"`) {
			t.Errorf("%s: %d: %s", c.addr, status, text)
		}
		if status, text := runs(""); (status == http.StatusUnauthorized) != (c.needs != "") {
			t.Errorf("%s without a token: %d: %s", c.addr, status, text)
		}
		u, err := url.Parse(s.url)
		if err != nil {
			t.Fatal(err)
		}
		again, err := exec.CommandContext(t.Context(), "trinity", "studio", "--dir", dir, "--port", u.Port()).CombinedOutput()
		if err == nil || string(again) != "trinity: --addr 127.0.0.1:"+u.Port()+
			" is in use: is a studio open there? Give another port with --port\n" {
			t.Errorf("a second studio on the port: %v: %s", err, again)
		}
		if rest := s.end(t); rest != "" {
			t.Errorf("at the end: %s", rest)
		}
	}
}
