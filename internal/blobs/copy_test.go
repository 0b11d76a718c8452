package blobs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
)

func TestCopyKeepsTheImagesOfExperiences(t *testing.T) {
	from, to := In(t.TempDir()), In(t.TempDir())
	digest, err := from.Put([]byte("abc"))
	if err != nil {
		t.Fatal(err)
	}
	e := &trinity.Experience{ID: trinity.ExperienceID{Step: 3, Task: "t/1"}, Images: []trinity.Image{{Digest: digest}, {Digest: digest}}}
	if err := to.Copy(from, e, e, &trinity.Experience{}); err != nil {
		t.Fatal(err)
	}
	if files, err := to.Images(e); err != nil || len(files) != 2 {
		t.Errorf("got %d files, %v", len(files), err)
	}
	if err := to.Copy(In(t.TempDir()), e); err != nil {
		t.Errorf("the store has the image, but: %v", err)
	}
	err = In(t.TempDir()).Copy(In(t.TempDir()), e)
	if err == nil || !strings.Contains(err.Error(), "experience 3/t/1/0/0: images[0]: the image "+digest+" is missing") {
		t.Errorf("without the file: %v", err)
	}
}

// What a second directory does with linked images changes nothing in the first one.
func TestLinkedImagesAreNotChanged(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	digest, err := In(dir).Put([]byte("abc"))
	if err != nil {
		t.Fatal(err)
	}
	if err := In(dir).Link(other); err != nil {
		t.Fatal(err)
	}
	if file, err := In(other).Get(digest); err != nil || string(file) != "abc" {
		t.Fatalf("got %q, %v", file, err)
	}
	more, err := In(other).Put([]byte("abd"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := In(dir).Get(more); err == nil {
		t.Error("the first directory has an image that was put into the second one")
	}
	path := filepath.Join(Folder, digest[7:9], digest[7:]+".png")
	if err := os.WriteFile(filepath.Join(dir, path), []byte("spoilt"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := In(other).Put([]byte("abc")); err != nil { // replaces the link
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(text) != "spoilt" {
		t.Errorf("the first directory has %q, %v", text, err)
	}
	if err := os.RemoveAll(other); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
		t.Error(err)
	}
	if err := In(t.TempDir()).Link(t.TempDir()); err != nil {
		t.Errorf("a run without images: %v", err)
	}
}
