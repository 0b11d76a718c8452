package archive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/blobs"
	"github.com/trinity-go/trinity/internal/experience"
)

// An archive in files has the images of its experiences, so that it can be moved. Without an image there is no step.
func TestArchivesHaveTheirImages(t *testing.T) {
	run := t.TempDir()
	digest, err := blobs.In(run).Put([]byte("an image"))
	if err != nil {
		t.Fatal(err)
	}
	groups := func(digest string) []trinity.Group {
		g := ofStep(1, 2)
		for _, e := range g[0] {
			e.Tokens, e.Mask = []int32{1, 2, 3}, []bool{false, false, true}
			e.Images = []trinity.Image{{Digest: digest, At: 1, Len: 1, Grid: [3]int{1, 1, 1}}}
		}
		return g
	}
	for _, form := range experience.Forms {
		dir := filepath.Join(t.TempDir(), "kept"+form)
		w, err := New(dir, run)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), 1, groups(digest)); err != nil {
			t.Fatal(err)
		}
		if file, err := blobs.In(dir).Get(digest); err != nil || string(file) != "an image" {
			t.Errorf("%s: the archive has %q, %v", form, file, err)
		}
		sink := NewSink(filepath.Join(t.TempDir(), "own"+form), run)
		if _, _, err := sink.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		gone := blobs.Digest([]byte("gone"))
		err = sink.Put(t.Context(), trinity.Delivery{Groups: groups(gone)})
		if err == nil || !strings.HasPrefix(err.Error(), "experience 1/") ||
			!strings.Contains(err.Error(), "images[0]: the image "+gone+" is missing") {
			t.Errorf("%s: %v", form, err)
		}
		if _, err := os.Stat(sink.to.path(1)); err == nil {
			t.Errorf("%s: there is a step whose image is missing", form)
		}
	}
}

// A run that reads the archive of another one has its images afterwards, and needs the archive no more.
func TestImagesOfAnArchiveAreKept(t *testing.T) {
	archive, dir := t.TempDir(), t.TempDir()
	digest, err := blobs.In(archive).Put([]byte("an image"))
	if err != nil {
		t.Fatal(err)
	}
	e := &trinity.Experience{ID: trinity.ExperienceID{Step: 3, Task: "t/1"}, Images: []trinity.Image{{Digest: digest}}}
	read := func(map[string]any) ([]*trinity.Experience, error) { return []*trinity.Experience{e}, nil }
	exps, err := KeepImages(read, archive, dir)(nil)
	if err != nil || len(exps) != 1 {
		t.Fatal(exps, err)
	}
	if file, err := blobs.In(dir).Get(digest); err != nil || string(file) != "an image" {
		t.Errorf("the run has %q, %v", file, err)
	}
	if _, err := KeepImages(read, t.TempDir(), dir)(nil); err != nil {
		t.Errorf("the run has the image, but: %v", err)
	}
	_, err = KeepImages(read, t.TempDir()+"/step-000000001.jsonl", t.TempDir())(nil)
	if err == nil || !strings.Contains(err.Error(), "experience 3/t/1/0/0: images[0]: the image "+digest+" is missing") {
		t.Errorf("without the image: %v", err)
	}
	if _, err := KeepImages(read, "postgresql://host/kept", t.TempDir())(nil); err != nil {
		t.Errorf("a database has no images, but: %v", err)
	}
}
