package view

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/trace"
)

// withImages writes the trace of two answers to an image that the run has, and of which the second also has one that
// the run has not.
func withImages(t *testing.T) (dir, digest, gone string) {
	t.Helper()
	dir = t.TempDir()
	digest, err := blobs.In(dir).Put([]byte("\x89PNG\r\n\x1a\n"))
	if err != nil {
		t.Fatal(err)
	}
	gone = blobs.Digest([]byte("gone"))
	w, err := trace.New(trace.Options{
		Dir: filepath.Join(dir, rundir.Traces), Text: func(token int32) string { return "<" + string('a'+token) + ">" },
		Say: func(line string) { t.Error(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []trinity.TrainedExperience
	for run := range 2 {
		e := answer("t", run, valid(1), 0).Experience
		e.Tokens, e.Prompt, e.PromptLen = []int32{0, 1, 1, 1, 2, 3, 4, 4, 5}, "", 5
		e.Mask = []bool{false, false, false, false, false, true, false, false, true}
		e.Logprobs, e.Advantages = make([]float32, 9), make([]float32, 9)
		e.Images = []trinity.Image{{Digest: digest, At: 1, Len: 3, Grid: [3]int{1, 2, 2}}}
		if run == 1 {
			e.Images = append(e.Images, trinity.Image{Digest: gone, At: 6, Len: 2, Grid: [3]int{1, 2, 2}})
		}
		all = append(all, trinity.TrainedExperience{Experience: e})
	}
	w.Trained(trinity.Trained{Step: 1, Experiences: all})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, digest, gone
}

// Of the tokens of an image the first one is shown, and the image is named.
func TestImagesOfAnswers(t *testing.T) {
	dir, digest, gone := withImages(t)
	out := shown(t, dir, Options{}, false, true)
	for _, want := range []string{
		"\n<a><b><c>\nimage 1, 3 tokens: " + digest + "\nimage 2, 2 tokens: " + gone + "\n", "    <d><e><e><f>\n", "    <d><e><f>\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q:\n%s", want, out)
		}
	}
}

// An exported page has its images, once for a group, and names one that is missing.
func TestExportedImages(t *testing.T) {
	dir, digest, gone := withImages(t)
	html, damaged, err := Export(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := `<img src="data:image/png;base64,iVBORw0KGgo=" alt="image 1, 3 tokens: ` + digest + `"`
	if strings.Count(string(html), want) != 1 || strings.Count(string(html), "<img") != 1 {
		t.Errorf("want once %s:\n%s", want, html)
	}
	if damaged == nil || !strings.HasPrefix(damaged.Error(), "experience 3/t/1/0: the image "+gone+" is missing") {
		t.Errorf("the missing image is %v", damaged)
	}
	page, err := Read(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	room := 3
	if all, left := page.images(page.Groups[0], &room); len(all) != 0 || len(left) != 2 || !strings.Contains(left[0], "left out") {
		t.Errorf("in a full page: %v, %q", all, left)
	}
}
