package studio_test

import (
	"bytes"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/serve/studio"
	"github.com/trinity-go/trinity/internal/trace"
	"github.com/trinity-go/trinity/trinitytest"
)

// seen writes the trace of a train step with an answer to two images, of which the run has the first, and
// returns that one.
func seen(t *testing.T, dir string) (id trinity.ExperienceID, digest string, file []byte) {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, image.NewGray(image.Rect(0, 0, 56, 28))); err != nil {
		t.Fatal(err)
	}
	digest, err := blobs.In(dir).Put(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"<|im_start|>", "user", "\n", "<|im_end|>", "assistant", "<|image_pad|>", "Which colour?", "grey"}
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(dir, rundir.Traces), Text: func(id int32) string { return words[id] },
		Say: func(line string) { t.Error(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	prompt := slices.Concat([]int32{0, 1, 2}, slices.Repeat([]int32{5}, 64), []int32{6, 5, 5, 3, 2, 0, 4, 2})
	tokens := append(prompt, 7, 3)
	e := trinity.Experience{
		ID: trinity.ExperienceID{Step: 3, Task: "shapes"}, Tokens: tokens, PromptLen: len(prompt), Prompt: "Which colour?", Response: "grey",
		Mask: append(make([]bool, len(prompt)), true, true), Logprobs: make([]float32, len(tokens)),
		Advantages: make([]float32, len(tokens)),
		Images: []trinity.Image{
			{Digest: digest, At: 3, Len: 64, Grid: [3]int{1, 2, 4}},
			{Digest: blobs.Digest([]byte("removed")), At: 68, Len: 2, Grid: [3]int{1, 2, 4}},
		},
	}
	w.Trained(trinity.Trained{Step: 4, Experiences: []trinity.TrainedExperience{{Experience: e}}})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return e.ID, digest, out.Bytes()
}

// The studio serves the images that a run keeps, behind its token, and no other file.
func TestImagesOfARun(t *testing.T) {
	dir := t.TempDir()
	_, digest, file := seen(t, filepath.Join(dir, "r"))
	seen(t, filepath.Join(dir, "other"))
	foreign, err := blobs.In(filepath.Join(dir, "r")).Put([]byte("<svg onload='alert(1)'/>"))
	if err != nil {
		t.Fatal(err)
	}
	alone, err := blobs.In(filepath.Join(dir, "other")).Put(append(slices.Clone(file), 0))
	if err != nil {
		t.Fatal(err)
	}
	changed, err := blobs.In(filepath.Join(dir, "r")).Put(append(slices.Clone(file), 1))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "r", blobs.Folder, changed[7:9], changed[7:]+".png"), file, 0o666); err != nil {
		t.Fatal(err)
	}
	const token = "0123456789abcdef"
	server := httptest.NewServer((&studio.Server{Dir: dir, Token: token}).Handler())
	t.Cleanup(server.Close)
	get := func(run, digest, token string) (*http.Response, string) {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/runs/"+run+"/blob/"+url.PathEscape(digest), nil)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Authorization", "Bearer "+token)
		r, err := server.Client().Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r, string(body)
	}
	r, body := get("r", digest, token)
	if r.StatusCode != http.StatusOK || body != string(file) {
		t.Errorf("status %d, %d bytes, want the file", r.StatusCode, len(body))
	}
	for name, want := range map[string]string{"Content-Type": "image/png", "X-Content-Type-Options": "nosniff",
		"Cache-Control": "private,max-age=31536000,immutable"} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if r, _ := get("r", digest, "other"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: status %d", r.StatusCode)
	}
	for _, c := range []struct{ run, digest, want string }{
		{"r", alone, "is missing"}, {"r", foreign, "is no PNG file"}, {"r", changed, "was changed"}, {"none", digest, "there is no run"},
		{"r", "sha256:../../monitor", "is no digest"}, {"r", digest[7:], "is no digest"},
	} {
		r, body := get(c.run, c.digest, token)
		if r.StatusCode != http.StatusNotFound || !strings.Contains(body, c.want) || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s of %s: status %d, %s, want 404 and %q", c.digest, c.run, r.StatusCode, body, c.want)
		}
	}
}

// An image is a small picture, and one tile among the tokens. One that is missing is named.
func TestImagesInABrowser(t *testing.T) {
	trinitytest.Long(t, "opens a browser", "internal/serve/studio")
	dir := t.TempDir()
	id, _, _ := seen(t, filepath.Join(dir, "r"))
	server := httptest.NewServer((&studio.Server{Dir: dir, Token: "0123456789abcdef"}).Handler())
	t.Cleanup(server.Close)
	w := openWindow(t, server.URL)
	w.do(t, chromedp.Navigate("about:blank"), chromedp.Navigate(server.URL+"/#token=0123456789abcdef"))
	const missing = "image 2 of 2, 2 tokens: the image sha256:"
	w.show(t, "tokens?run=r&step=4&rollout="+url.QueryEscape(id.String()), missing)
	w.until(t, `[...document.querySelectorAll(".image img")].some((i) => i.alt === "image 1 of 2, 64 tokens" && i.naturalWidth === 56)`)
	w.until(t, `document.querySelectorAll(".lines .tile").length === 2 && document.querySelector(".lines .tile img")?.naturalWidth === 56`)
	if n := value[int](t, w, `document.querySelectorAll(".lines [data-token]").length`); n != 13 {
		t.Errorf("%d tokens are shown, want 11 and two tiles", n)
	}
	if text := value[string](t, w, `document.querySelector(".lines .tile").innerText.trim()`); text != "image 1 of 2, 64 tokens" {
		t.Errorf("the tile says %q", text)
	}
	// A key moves over an image as over a token.
	w.do(t, chromedp.Click(chromedp.CSS(`.lines [data-token="2"]`)), chromedp.Focus(chromedp.CSS(".lines")),
		chromedp.KeyEvent(kb.ArrowRight))
	w.until(t, `document.querySelector(".lines .cursor")?.classList.contains("tile") && document.querySelector(".token-panel .image img")`)
	w.do(t, chromedp.KeyEvent(kb.ArrowRight))
	w.until(t, `document.querySelector(".lines .cursor")?.dataset.token === "67"`)
	w.do(t, chromedp.KeyEvent(kb.ArrowLeft))
	w.until(t, `document.querySelector(".lines .cursor")?.dataset.token === "3"`)
	w.do(t, chromedp.KeyEvent("m"))
	w.until(t, `document.querySelector(".messages details").innerText.includes("[image 1]Which colour?[image 2]")`)
	w.do(t, chromedp.Click(chromedp.CSS(".messages .image")))
	w.until(t, `document.querySelector(".messages .image.whole").getAttribute("aria-expanded") === "true"`)
	w.show(t, "rollouts?run=r&step=4", "shapes")
	w.until(t, `document.querySelector("img.image-small")?.alt === "image 1 of 2, 64 tokens"`)
	w.show(t, "group?run=r&step=4&task=shapes&explore_step=3", missing)
	w.until(t, `document.querySelector(".prompt .image img")?.naturalWidth === 56`)
}
