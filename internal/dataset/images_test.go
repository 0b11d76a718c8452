package dataset

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func drawn(t testing.TB, width int) string {
	t.Helper()
	var out bytes.Buffer
	if err := png.Encode(&out, image.NewGray(image.Rect(0, 0, width, 2))); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// The datasets library wrote the file: testdata/record_images.py.
func TestImagesOfHuggingFaceDatasets(t *testing.T) {
	d, err := Open(t.Context(), "testdata/images/rows.parquet", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string][]string{"image": {"1×2", "2×2", ""}, "images": {"", "2×2", "3×2 3×2"}} {
		for i, w := range want {
			files, err := ImagesOf(d, i, key)
			var sizes []string
			for _, file := range files {
				size, err := png.DecodeConfig(bytes.NewReader(file))
				sizes = append(sizes, fmt.Sprintf("%d×%d", size.Width, size.Height))
				if err != nil {
					t.Error(err)
				}
			}
			if got := strings.Join(sizes, " "); err != nil || got != w {
				t.Errorf("row %d, %s: images of %q, %v, want %q", i, key, got, err, w)
			}
		}
	}
}

func TestImagesOfRows(t *testing.T) {
	file := drawn(t, 5)
	in64 := base64.StdEncoding.EncodeToString([]byte(file))
	dir := write(t, map[string]string{"data/below/a.png": file, "secret.png": file, "data/rows.jsonl": strings.Join([]string{
		`{"i": "data:image/png;base64,` + in64 + `"}`,
		`{"i": "` + in64 + `"}`,
		`{"i": "below/a.png"}`,
		`{"i": {"bytes": "` + in64 + `", "path": "/nowhere/a.png"}}`,
		`{"i": {"bytes": null, "path": "below/a.png"}}`,
		`{"i": ["below/a.png", {"path": "below/a.png"}]}`,
		`{"i": null}`,
		`{"i": "https://example.com/a.png"}`,
		`{"i": ["below/a.png", "http://example.com/a.png"]}`,
		`{"i": "../secret.png"}`,
		`{"i": "/etc/passwd"}`,
		`{"i": {"bytes": null, "path": "below/../../secret.png"}}`,
		`{"i": "link.png"}`,
		`{"i": "below/b.png"}`,
		`{"i": "below"}`,
		`{"i": {"url": "x"}}`,
		`{"i": 3}`,
		`{"i": [null]}`,
		`{"i": "data:image/png,abc"}`,
		`{"i": {"bytes": "§"}}`,
		`{"j": 1}`,
	}, "\n")})
	if err := os.Symlink(filepath.Join(dir, "secret.png"), filepath.Join(dir, "data", "link.png")); err != nil {
		t.Skip(err)
	}
	d, err := Open(t.Context(), filepath.Join(dir, "data", "rows.jsonl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	whole := []int{1, 1, 1, 1, 1, 2, 0}
	wrong := []string{`i: "https://example.com/a.png" is on the network`, `i[1]: "http://example.com/a.png" is on the network`,
		"is outside of", "is outside of", "is outside of", "escapes", "no such file", "is no regular file",
		"has neither bytes nor path", "it holds a number",
		"i[0]: it holds null", "is no data: URL", "neither an image nor base64", `no field "i"`}
	if d.Len() != len(whole)+len(wrong) {
		t.Fatalf("%d rows, want %d and %d", d.Len(), len(whole), len(wrong))
	}
	for i := range d.Len() {
		files, err := ImagesOf(d, i, "i")
		if i < len(whole) {
			if err != nil || len(files) != whole[i] {
				t.Errorf("row %d: %d images, %v, want %d", i, len(files), err, whole[i])
			}
			for _, got := range files {
				if string(got) != file {
					t.Errorf("row %d: other bytes", i)
				}
			}
			continue
		}
		if want := wrong[i-len(whole)]; err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), fmt.Sprintf("rows.jsonl:%d", i+1)) {
			t.Errorf("row %d: %v, want an error with its line and %q", i, err, want)
		}
	}
}

// A value that is no image gives one short line, however long it is.
func TestLongValuesAreCutInErrors(t *testing.T) {
	dir := write(t, map[string]string{"rows.jsonl": `{"i": "` + strings.Repeat("x", 220_000) + `"}`})
	d, err := Open(t.Context(), filepath.Join(dir, "rows.jsonl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ImagesOf(d, 0, "i"); err == nil || len(err.Error()) > 400 || !strings.Contains(err.Error(), "a text of 220000 bytes") {
		t.Errorf("%.400v", err)
	}
}

// The files of a snapshot of a hub are links to blobs beside the snapshots, and no others are read.
func TestImagesOfHubSnapshots(t *testing.T) {
	file := drawn(t, 5)
	const snapshot = "datasets--a--b/snapshots/0123456789abcdef0123456789abcdef01234567"
	dir := write(t, map[string]string{"datasets--a--b/blobs/1": file, "secret.png": file, snapshot + "/train/below/kept.png": file,
		"datasets--a--b/blobs/rows": `{"i": "below/a.png"}` + "\n" + `{"i": "below/kept.png"}` + "\n" + `{"i": "below/out.png"}`})
	for name, to := range map[string]string{"rows.jsonl": "../../../blobs/rows", "below/a.png": "../../../../blobs/1",
		"below/out.png": "../../../../../secret.png"} {
		if err := os.Symlink(filepath.FromSlash(to), filepath.Join(dir, snapshot, "train", name)); err != nil {
			t.Skip(err)
		}
	}
	d, err := Open(t.Context(), filepath.Join(dir, snapshot, "train", "rows.jsonl"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		if files, err := ImagesOf(d, i, "i"); err != nil || len(files) != 1 || string(files[0]) != file {
			t.Errorf("row %d: %d images, %v", i, len(files), err)
		}
	}
	if _, err := ImagesOf(d, 2, "i"); err == nil || !strings.Contains(err.Error(), "escapes") {
		t.Errorf("a link out of the repository: %v", err)
	}
}
