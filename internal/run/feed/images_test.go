package feed

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/blobs"
)

// A run that reads the archive of another one has its images afterwards, and needs the archive no more.
func TestImagesOfAnArchiveAreKept(t *testing.T) {
	archive, dir := t.TempDir(), t.TempDir()
	digest, err := blobs.In(archive).Put([]byte("an image"))
	if err != nil {
		t.Fatal(err)
	}
	e := &trinity.Experience{ID: trinity.ExperienceID{Step: 3, Task: "t/1"}, Images: []trinity.Image{{Digest: digest}}}
	read := func(map[string]any) ([]*trinity.Experience, error) { return []*trinity.Experience{e}, nil }
	exps, err := withImages(read, blobs.In(dir), archive)(nil)
	if err != nil || len(exps) != 1 {
		t.Fatal(exps, err)
	}
	if file, err := blobs.In(dir).Get(digest); err != nil || string(file) != "an image" {
		t.Errorf("the run has %q, %v", file, err)
	}
	if _, err := withImages(read, blobs.In(dir), t.TempDir())(nil); err != nil {
		t.Errorf("the run has the image, but: %v", err)
	}
	_, err = withImages(read, blobs.In(t.TempDir()), t.TempDir()+"/step-000000001.jsonl")(nil)
	if err == nil || !strings.Contains(err.Error(), "experience 3/t/1/0/0: images[0]: the image "+digest+" is missing") {
		t.Errorf("without the image: %v", err)
	}
}
