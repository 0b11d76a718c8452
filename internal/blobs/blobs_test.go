package blobs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity"
)

func TestBlobsAreReadByDigest(t *testing.T) {
	dir := t.TempDir()
	s := In(dir)
	// sha256sum prints this digest of the file.
	const want = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	digest, err := s.Put([]byte("abc"))
	if err != nil || digest != want {
		t.Fatalf("got %s, %v, want %s", digest, err, want)
	}
	path := filepath.Join(dir, "blobs", "ba", strings.TrimPrefix(want, "sha256:")+".png")
	long := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(path, long, long); err != nil {
		t.Fatal(err)
	}
	if again, err := In(dir).Put([]byte("abc")); err != nil || again != digest {
		t.Errorf("put again: %s, %v", again, err)
	}
	if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(long) {
		t.Errorf("the file was written a second time: %v, %v", info.ModTime(), err)
	}
	e := &trinity.Experience{ID: trinity.ExperienceID{Step: 3, Task: "t/1"}, Images: []trinity.Image{{Digest: digest}, {Digest: digest}}}
	if files, err := In(dir).Images(e); err != nil || len(files) != 2 || !bytes.Equal(files[1], []byte("abc")) {
		t.Errorf("got %q, %v", files, err)
	}
}

func TestMissingAndChangedBlobsAreNamed(t *testing.T) {
	dir := t.TempDir()
	s := In(dir)
	digest, err := s.Put([]byte("abc"))
	if err != nil {
		t.Fatal(err)
	}
	e := &trinity.Experience{ID: trinity.ExperienceID{Step: 3, Task: "t/1"}, Images: []trinity.Image{{Digest: digest}}}
	path := filepath.Join(dir, "blobs", digest[7:9], digest[7:]+".png")
	for want, spoil := range map[string]func() error{
		"was changed": func() error { return os.WriteFile(path, []byte("abd"), 0o666) },
		"is missing":  func() error { return os.Remove(path) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		_, err := s.Images(e)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "experience 3/t/1/0/0") ||
			!strings.Contains(err.Error(), digest) {
			t.Errorf("%v, want an error with %q, the experience and the digest", err, want)
		}
		if _, err := s.Put([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Images(e); err != nil {
			t.Errorf("after the file was put again: %v", err)
		}
	}
}

func TestPathsAreNoDigests(t *testing.T) {
	hex := strings.Repeat("a", 64)
	for _, digest := range []string{"", hex, "sha256:", "sha256:" + hex[1:], "sha256:" + hex + "a", "sha256:" + strings.ToUpper(hex),
		"sha256:../" + hex[3:], "md5:" + hex} {
		if _, err := In(t.TempDir()).Get(digest); err == nil || !strings.Contains(err.Error(), "is no digest") {
			t.Errorf("%q: %v, want an error", digest, err)
		}
	}
}
