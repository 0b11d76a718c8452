package hub

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newFakeDatasetHub serves a dataset of two subsets.
func newFakeDatasetHub(t *testing.T) *fakeHub {
	f := newFakeHub(t)
	f.kind = "datasets"
	f.files = map[string][]byte{
		"README.md": []byte("---\nconfigs: []\n---\n"), "docs/README.md": []byte("no"), "load.py": []byte("no"), ".gitattributes": []byte("no"),
		"main/v1/train-00000-of-00001.parquet": bytes.Repeat([]byte("0123456789"), 50_000), "socratic/test.jsonl": []byte("{}\n"),
	}
	return f
}

func (f *fakeHub) checkDataset(t *testing.T, dir string) {
	t.Helper()
	var got []string
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			got = append(got, filepath.ToSlash(rel))
		}
		return err
	})
	if strings.Join(got, " ") != "README.md main/v1/train-00000-of-00001.parquet socratic/test.jsonl" {
		t.Errorf("the snapshot holds %v", got)
	}
	for _, name := range got {
		if content, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); err != nil || !bytes.Equal(content, f.files[name]) {
			t.Errorf("%s: %d bytes, want %d (%v)", name, len(content), len(f.files[name]), err)
		}
	}
}

// The test covers directories, the card, an interrupted download, and the cache without a network.
func TestPullFetchesDatasets(t *testing.T) {
	f := newFakeDatasetHub(t)
	f.cut = 123_456
	dir, err := f.client().pull(context.Background(), "hf://datasets/org/name@v2", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	f.checkDataset(t, dir)
	if f.asked("GET /main/v1/train-00000-of-00001.parquet bytes=123456-") != 1 || f.asked("/revision/v2") != 1 {
		t.Errorf("requests %v", f.requests)
	}
	f.hub.Close()
	if again, err := f.client().pull(context.Background(), "hf://datasets/org/name@v2", "", nil); err != nil || again != dir {
		t.Errorf("without network: %s, %v", again, err)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	if again, err := Pull(context.Background(), "hf://datasets/org/name@v2", Options{}); err != nil || again != dir {
		t.Errorf("offline: %s, %v", again, err)
	}
	if _, err := Pull(context.Background(), "hf://datasets/org/name", Options{}); err == nil ||
		!strings.Contains(err.Error(), "no complete copy of revision main") {
		t.Errorf("another revision: %v", err)
	}
	for _, name := range []string{"main/v1/train-00000-of-00001.parquet", "socratic/test.jsonl"} {
		if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Fatal(err)
		}
	}
	if dir, ok := Cached("hf://datasets/org/name@v2"); ok {
		t.Errorf("a card without data counts as a copy: %s", dir)
	}
}

func TestDatasetErrorsAreOneLine(t *testing.T) {
	f := newFakeDatasetHub(t)
	pull := func() string {
		_, err := f.client().pull(context.Background(), "hf://datasets/org/name", "", nil)
		if err == nil || strings.Contains(err.Error(), "\n") {
			t.Fatalf("error %v, want one line", err)
		}
		return err.Error()
	}
	f.spoil = true
	if got := pull(); !strings.Contains(got, "datasets/org/name: main/v1/train-00000-of-00001.parquet: the SHA-256 sum is") {
		t.Error(got)
	}
	f.files = map[string][]byte{"README.md": []byte("# Moved\n"), "load.py": []byte("no")}
	if got := pull(); !strings.Contains(got, "datasets/org/name has no data files among its 2 files") {
		t.Error(got)
	}
	f.status = 401
	if got := pull(); !strings.Contains(got, "the dataset may be private, gated") {
		t.Error(got)
	}
	f.status = 404
	if got := pull(); !strings.Contains(got, `has no such dataset, or no revision "main" of it`) {
		t.Error(got)
	}
}
