package served

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A server gets the files of the newest version, and nothing else of this machine, with the token alone.
func TestFileServer(t *testing.T) {
	f := newFileServer(time.Minute, nil)
	defer f.close()
	dir := filepath.Join(t.TempDir(), "weights")
	publish := func(text string) offer {
		t.Helper()
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		o, err := f.offer(t.Context(), dir, "run-1", "http://127.0.0.1:8000")
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "secret"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	first := publish("first")
	if second := publish("other"); second.digest == first.digest || second.url != first.url {
		t.Errorf("a version that was published again is offered as %+v, and was %+v", second, first)
	}
	if len(first.list) != 1 || !strings.HasPrefix(first.url, "http://127.0.0.1:") {
		t.Errorf("offered %+v", first)
	}
	for _, c := range []struct {
		path, token string
		status      int
	}{
		{"/model.safetensors", f.token, http.StatusOK},
		{"/model.safetensors", f.token + "0", http.StatusUnauthorized},
		{"/model.safetensors", "", http.StatusUnauthorized},
		{"/../secret", f.token, http.StatusNotFound},
		{"/..%2fsecret", f.token, http.StatusNotFound},
		{"", f.token, http.StatusNotFound},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, first.url+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+c.token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || c.status == http.StatusOK && string(body) != "other" {
			t.Errorf("%s: status %d, want %d: %q, %v", c.path, resp.StatusCode, c.status, body, err)
		}
	}
	sum := sha256.Sum256([]byte("first"))
	if got := first.list[0]; got.SHA256 != hex.EncodeToString(sum[:]) || got.Size != 5 || got.Name != "model.safetensors" {
		t.Errorf("listed %+v", got)
	}
}

// The files are served on each address after the load that needed it first has ended.
func TestFileServerOutlivesALoad(t *testing.T) {
	f := newFileServer(time.Minute, nil)
	defer f.close()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "model.safetensors"), []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"http://127.0.0.1:8000", "http://[::1]:8000"} {
		load, end := context.WithCancel(t.Context())
		o, err := f.offer(load, dir, "run-1", to)
		if err != nil {
			t.Skip("this machine has no IPv6: ", err)
		}
		end()
		time.Sleep(50 * time.Millisecond) // a listener that ends with the load has ended then
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.url+"/model.safetensors", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+f.token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", to, err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", to, resp.StatusCode)
		}
	}
}
