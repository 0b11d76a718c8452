package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const testCommit = "0123456789abcdef0123456789abcdef01234567"

// fakeHub serves one repository like the Hugging Face hub: it redirects large files to another
// host.
type fakeHub struct {
	t        *testing.T
	hub, cdn *httptest.Server
	kind     string            // models or datasets
	files    map[string][]byte // path → content; *.safetensors and *.parquet are large files

	mu       sync.Mutex
	requests []string // "METHOD path range" of the hub and "CDN METHOD path range" of the CDN
	tokens   []string // Authorization headers that the CDN saw
	cut      int      // after this many bytes the CDN breaks the connection, once each time this is set
	fail     int      // number of times that the hub answers 503
	spoil    bool     // the CDN changes a byte
	noRanges bool     // the CDN ignores Range
	status   int      // the hub's answer to every request
}

func newFakeHub(t *testing.T) *fakeHub {
	f := &fakeHub{t: t, kind: "models", files: map[string][]byte{
		"config.json": []byte(`{"model_type":"llama"}`), "tokenizer.json": []byte("{}"), "README.md": []byte("no"),
		"onnx/model.json":   []byte("no"),
		"pytorch_model.bin": []byte("no"), "model.safetensors": bytes.Repeat([]byte("0123456789"), 50_000),
	}}
	f.hub = httptest.NewServer(http.HandlerFunc(f.serveHub))
	f.cdn = httptest.NewServer(http.HandlerFunc(f.serveCDN))
	t.Cleanup(f.hub.Close)
	t.Cleanup(f.cdn.Close)
	for _, variable := range []string{"HF_HOME", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "XDG_CACHE_HOME"} {
		t.Setenv(variable, "")
	}
	t.Setenv("HF_ENDPOINT", f.hub.URL+"/")
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("HF_TOKEN", "secret")
	return f
}

func (f *fakeHub) client() *client {
	c := fromEnvironment()
	c.backoff = time.Millisecond
	return c
}

func (f *fakeHub) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (f *fakeHub) serveHub(w http.ResponseWriter, r *http.Request) {
	f.note("%s %s %s", r.Method, r.URL.Path, r.Header.Get("Range"))
	if r.Header.Get("Authorization") != "Bearer secret" {
		f.t.Errorf("%s comes without the token", r.URL)
	}
	f.mu.Lock()
	fail, status := f.fail > 0, f.status
	f.fail--
	f.mu.Unlock()
	if fail {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if status != 0 {
		w.Header().Set("X-Error-Message", "said so")
		w.WriteHeader(status)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/api/"+f.kind+"/org/name/revision/") {
		answer := map[string]any{"sha": testCommit}
		var siblings []map[string]string
		for path := range f.files {
			siblings = append(siblings, map[string]string{"rfilename": path})
		}
		answer["siblings"] = siblings
		_ = json.NewEncoder(w).Encode(answer)
		return
	}
	path, ok := strings.CutPrefix(strings.TrimPrefix(r.URL.Path, "/datasets"), "/org/name/resolve/"+testCommit+"/")
	content, known := f.files[path]
	if !ok || !known {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("X-Repo-Commit", testCommit)
	if strings.HasSuffix(path, ".safetensors") || strings.HasSuffix(path, ".parquet") {
		w.Header().Set("X-Linked-Etag", `"`+sum(content)+`"`)
		w.Header().Set("X-Linked-Size", fmt.Sprint(len(content)))
		http.Redirect(w, r, f.cdn.URL+"/"+path, http.StatusFound)
		return
	}
	w.Header().Set("ETag", `W/"`+sum(content)[:40]+`"`)
	http.ServeContent(w, r, path, time.Time{}, bytes.NewReader(content))
}

func (f *fakeHub) serveCDN(w http.ResponseWriter, r *http.Request) {
	f.note("CDN %s %s %s", r.Method, r.URL.Path, r.Header.Get("Range"))
	f.mu.Lock()
	f.tokens = append(f.tokens, r.Header.Get("Authorization"))
	cut, spoil := f.cut, f.spoil
	f.cut = 0
	f.mu.Unlock()
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusForbidden) // like addresses signed for GET
		return
	}
	content := bytes.Clone(f.files[strings.TrimPrefix(r.URL.Path, "/")])
	if spoil {
		content[len(content)/2]++
	}
	if f.noRanges {
		r.Header.Del("Range")
	}
	if cut > 0 {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:cut])
		panic(http.ErrAbortHandler)
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func (f *fakeHub) asked(substring string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, r := range f.requests {
		if strings.Contains(r, substring) {
			n++
		}
	}
	return n
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return hex.EncodeToString(s[:])
}

// checkSnapshot tests contents and the cache's layout.
func (f *fakeHub) checkSnapshot(t *testing.T, dir string) {
	t.Helper()
	repo := filepath.Join(os.Getenv("HF_HOME"), "hub", "models--org--name")
	if want := filepath.Join(repo, "snapshots", testCommit); dir != want {
		t.Errorf("snapshot %s, want %s", dir, want)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 3 {
		t.Errorf("snapshot holds %v, want config.json, model.safetensors, tokenizer.json", entries)
	}
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, f.files[name]) {
			t.Errorf("%s: %d bytes, want %d (%v)", name, len(got), len(f.files[name]), err)
		}
	}
	if target, err := os.Readlink(filepath.Join(dir, "model.safetensors")); err != nil ||
		target != "../../blobs/"+sum(f.files["model.safetensors"]) {
		t.Errorf("model.safetensors links to %q (%v)", target, err)
	}
	if ref, _ := os.ReadFile(filepath.Join(repo, "refs", "main")); string(ref) != testCommit {
		t.Errorf("refs/main is %q", ref)
	}
	if left, _ := filepath.Glob(filepath.Join(repo, "blobs", "*.incomplete")); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestPullFetchesModels(t *testing.T) {
	f := newFakeHub(t)
	if dir, ok := Cached("org/name"); ok {
		t.Errorf("an empty cache has %s", dir)
	}
	var last progress
	dir, err := fromEnvironment().pull(context.Background(), "hf://org/name", "", func(p progress) { last = p })
	if err != nil {
		t.Fatal(err)
	}
	f.checkSnapshot(t, dir)
	if last.done != last.total || last.total != 500_000+22+2 {
		t.Errorf("progress ends at %+v", last)
	}
	if n := f.asked("CDN HEAD"); n != 0 {
		t.Errorf("%d HEAD requests went to the CDN", n)
	}
	for _, token := range f.tokens {
		if token != "" {
			t.Errorf("the CDN saw the token: %q", token)
		}
	}
	if again, ok := Cached("org/name"); !ok || again != dir {
		t.Errorf("cached: %s %v", again, ok)
	}
	if again, ok := Cached("org/name@" + testCommit); !ok || again != dir {
		t.Errorf("cached by commit: %s %v", again, ok)
	}
	gets := f.asked("GET /org/name/resolve") + f.asked("CDN GET")
	if _, err := Pull(context.Background(), "org/name", Options{}); err != nil || f.asked("GET /org/name/resolve")+f.asked("CDN GET") != gets {
		t.Errorf("a second pull fetches again (%v)", err)
	}
}

func TestInterruptedDownloadResumes(t *testing.T) {
	for _, noRanges := range []bool{false, true} {
		f := newFakeHub(t)
		f.cut, f.noRanges = 300_000, noRanges
		dir, err := f.client().pull(context.Background(), "org/name", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		f.checkSnapshot(t, dir)
		if f.asked("CDN GET /model.safetensors bytes=") != 1 {
			t.Errorf("requests %q; want one for the rest", f.requests)
		}
	}
}

// A killed process leaves an incomplete file. The next process resumes the download.
func TestPullResumesDownloadsOfKilledProcesses(t *testing.T) {
	for name, part := range map[string]string{"good": "0123456789012", "spoilt": "012345678X0",
		"too long": strings.Repeat("0123456789", 60_000)} {
		f := newFakeHub(t)
		blobs := filepath.Join(os.Getenv("HF_HOME"), "hub", "models--org--name", "blobs")
		if err := os.MkdirAll(blobs, 0o777); err != nil {
			t.Fatal(err)
		}
		incomplete := filepath.Join(blobs, sum(f.files["model.safetensors"])+".incomplete")
		if err := os.WriteFile(incomplete, []byte(part), 0o666); err != nil {
			t.Fatal(err)
		}
		dir, err := f.client().pull(context.Background(), "org/name", "", nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.checkSnapshot(t, dir)
		if n := f.asked("bytes=13-"); name == "good" && (n == 0 || f.asked("CDN GET") != 1) {
			t.Errorf("requests %q; want one from byte 13", f.requests)
		}
	}
}

func TestWrongHashIsAnError(t *testing.T) {
	f := newFakeHub(t)
	f.spoil = true
	_, err := f.client().pull(context.Background(), "org/name", "", nil)
	if err == nil || !strings.Contains(err.Error(), "model.safetensors: the SHA-256 sum is") {
		t.Errorf("error %v", err)
	}
	if _, ok := Cached("org/name"); ok {
		t.Error("the spoilt copy counts as cached")
	}
	f.spoil = false
	dir, err := f.client().pull(context.Background(), "org/name", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	f.checkSnapshot(t, dir)
}

func TestPullRetriesWhileTheServerFails(t *testing.T) {
	f := newFakeHub(t)
	f.fail = attempts - 1
	if _, err := f.client().pull(context.Background(), "org/name", "", nil); err != nil {
		t.Fatal(err)
	}
	f.fail = 100
	if _, err := f.client().pull(context.Background(), "org/name", "", nil); err != nil {
		t.Errorf("a complete copy is cached, but: %v", err)
	}
	f.fail = 100
	if _, err := f.client().pull(context.Background(), "org/name@other", "", nil); err == nil || !strings.Contains(err.Error(), "503") ||
		!strings.Contains(err.Error(), "give a file or directory of this machine") {
		t.Errorf("error %v, want the server's 503 and what to do", err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	f := newFakeHub(t)
	for status, want := range map[int]string{
		401: "said so; the model may be private, gated (accept its terms on its page) or not exist, and the token in HF_TOKEN does not allow it",
		403: "gated", 404: `no such model, or no revision "main" of it (404 Not Found): said so; check the spelling`,
		400: "400 Bad Request: said so",
	} {
		f.status = status
		before := len(f.requests)
		if _, err := f.client().pull(context.Background(), "org/name", "", nil); err == nil ||
			!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "org/name") {
			t.Errorf("%d: error %v, want one about %q", status, err, want)
		}
		if len(f.requests) != before+1 {
			t.Errorf("%d: %d requests, want 1", status, len(f.requests)-before)
		}
	}
}

func TestOfflinePullUsesTheCache(t *testing.T) {
	f := newFakeHub(t)
	t.Setenv("HF_HUB_OFFLINE", "1")
	if _, err := Pull(context.Background(), "org/name", Options{}); err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
		t.Errorf("error %v", err)
	}
	t.Setenv("HF_HUB_OFFLINE", "0")
	if _, err := Pull(context.Background(), "org/name", Options{}); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HF_HUB_OFFLINE", "true")
	before := len(f.requests)
	dir, err := Pull(context.Background(), "org/name", Options{})
	if err != nil || len(f.requests) != before {
		t.Errorf("%v; %d requests", err, len(f.requests)-before)
	}
	if err := os.Remove(filepath.Join(dir, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	if _, ok := Cached("org/name"); ok {
		t.Error("a copy without weights counts as cached")
	}
}

func TestUnsafePathsAreRefused(t *testing.T) {
	for _, path := range []string{"../x.json", "/etc/x.json", "a/../../x.json", `..\x.json`, "c:x.json"} {
		f := newFakeHub(t)
		f.files[path] = []byte("{}")
		_, err := f.client().pull(context.Background(), "org/name", "", nil)
		if strings.Contains(path, "/") { // a model needs no files below the top
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "outside") {
			t.Errorf("%s: error %v", path, err)
		}
		if safePath(path) {
			t.Errorf("%s counts as safe", path)
		}
	}
}

func TestPullStopsWithItsContext(t *testing.T) {
	f := newFakeHub(t)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := f.client().pull(ctx, "org/name", "", func(progress) { cancel() })
	if err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("error %v", err)
	}
}

// The download gives up a connection that sends nothing and continues with another one.
func TestPullReplacesStalledConnections(t *testing.T) {
	f := newFakeHub(t)
	first := true
	var mu sync.Mutex
	f.cdn.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		stall := first
		first = false
		mu.Unlock()
		if !stall {
			f.serveCDN(w, r)
			return
		}
		w.Header().Set("Content-Length", "500000")
		_, _ = w.Write(f.files["model.safetensors"][:1000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	c := f.client()
	c.stall = 50 * time.Millisecond
	dir, err := c.pull(context.Background(), "org/name", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	f.checkSnapshot(t, dir)
}

func TestProcessesShareOneDownload(t *testing.T) {
	f := newFakeHub(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if _, err := f.client().pull(context.Background(), "org/name", "", nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := f.asked("CDN GET"); n != 1 {
		t.Errorf("the weights were fetched %d times", n)
	}
}

// A model at a service needs no weights here. A later pull of the same model fetches them.
func TestPullWithoutWeights(t *testing.T) {
	f := newFakeHub(t)
	c := f.client()
	c.noWeights = true
	dir, err := c.pull(context.Background(), "org/name", "", nil)
	if err != nil || exists(dir, "model.safetensors") || !exists(dir, "config.json") {
		t.Fatalf("%s, %v, requests %q", dir, err, f.requests)
	}
	if _, ok := Cached("org/name"); ok {
		t.Error("a copy without weights passes for a whole one")
	}
	if got, ok := CachedText("org/name"); !ok || got != dir {
		t.Errorf("the copy without weights is %q, %v", got, ok)
	}
	whole, err := f.client().pull(context.Background(), "org/name", "", nil)
	if err != nil || whole != dir {
		t.Fatalf("%s, %v", whole, err)
	}
	f.checkSnapshot(t, whole)
}
