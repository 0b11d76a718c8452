package dataset

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/model/hub"
)

const (
	maxImage = 20 << 20 // bytes of the file of an image
	maxPath  = 4096     // bytes of a path
)

// Rows are rows that may have images: a [Dataset] or a [Queue].
type Rows interface {
	Row(i int) (map[string]any, error)
	Where(i int) string // file and line, for errors
	folder(i int) string
}

// ImagesOf returns the files of the images at a key of row i, in order; none if the row has null there.
// The value is an image or a list of images, and each is
//   - an object with bytes or path, as Hugging Face datasets have it in columns of type Image;
//   - bytes, which rows have in base64;
//   - a URL that begins with data:;
//   - a path below the folder of the row's file.
//
// An image on the network is an error, because a rollout must not depend on a server. Errors name the
// file, the line and the key.
func ImagesOf(d Rows, i int, key string) ([][]byte, error) {
	row, err := d.Row(i)
	if err != nil {
		return nil, err
	}
	value, ok := (&trinity.Task{Row: row}).Field(key)
	if !ok {
		return nil, fmt.Errorf("%s: no field %q: check format.image_key", d.Where(i), key)
	}
	list, isList := value.([]any)
	if !isList && value != nil {
		list = []any{value}
	}
	var files [][]byte
	for k, v := range list {
		file, err := imageOf(v, d.folder(i))
		if err != nil {
			name := key
			if isList {
				name = fmt.Sprintf("%s[%d]", key, k)
			}
			return nil, fmt.Errorf("%s: %s: %w", d.Where(i), name, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// Images gives a run the images of rows.
type Images struct {
	Rows Rows
	Key  string                                       // of the images in a row
	Keep func(file []byte) (digest string, err error) // makes the canonical image of a file, and keeps it

	mu    sync.Mutex
	known map[int][]string // by row
}

// Of returns the digests of the images of row i, which are kept then. The error names the file, the line
// and the key.
func (m *Images) Of(i int) ([]string, error) {
	m.mu.Lock()
	digests, ok := m.known[i]
	m.mu.Unlock()
	if ok {
		return digests, nil
	}
	files, err := ImagesOf(m.Rows, i, m.Key)
	if err != nil {
		return nil, err
	}
	digests = make([]string, len(files))
	for k, file := range files {
		if digests[k], err = m.Keep(file); err != nil {
			return nil, fmt.Errorf("%s: image %d of %d at %s: %w", m.Rows.Where(i), k+1, len(files), m.Key, err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known = map[int][]string{}
	}
	m.known[i] = digests
	return digests, nil
}

// ShowImages lets rows have the digests of their images, which keep returns, in place of the images at a key.
func (d *Dataset) ShowImages(key string, keep func(file []byte) (digest string, err error)) {
	plain := *d
	d.images = &Images{Rows: &plain, Key: key, Keep: keep}
}

// digestsOf returns the digests that a row of [Dataset.ShowImages] has.
func digestsOf(value any) ([]string, error) {
	digests, ok := value.([]string)
	if !ok {
		return nil, errors.New("the row has images, and nothing here reads them")
	}
	return digests, nil
}

// imageOf returns the file of one image.
func imageOf(v any, folder string) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return imageIn(v, folder)
	case map[string]any:
		if text, ok := v["bytes"].(string); ok && text != "" {
			return imageBytes(text)
		}
		if path, ok := v["path"].(string); ok && path != "" {
			return imageAt(path, folder)
		}
		return nil, errors.New("the object has neither bytes nor path: want an image as Hugging Face datasets write it")
	}
	return nil, fmt.Errorf("it holds %s, want an image: bytes, a data: URL, a path, or an object with bytes or path", kindOfValue(v))
}

// imageIn returns the image that a text is, or that it names.
func imageIn(text, folder string) ([]byte, error) {
	if rest, ok := strings.CutPrefix(text, "data:"); ok {
		form, data, ok := strings.Cut(rest, ",")
		if !ok || !strings.HasSuffix(form, ";base64") {
			return nil, fmt.Errorf("%.40q is no data: URL in base64", text)
		}
		return imageBytes(data)
	}
	if file, err := imageBytes(text); err == nil && isImage(file) {
		return file, nil
	}
	return imageAt(text, folder)
}

// imageBytes returns the bytes of a column, which rows have as text if they are UTF-8.
func imageBytes(text string) ([]byte, error) {
	if base64.StdEncoding.DecodedLen(len(text)) > maxImage+base64.StdEncoding.DecodedLen(4) {
		return nil, fmt.Errorf("an image of more than %d bytes", maxImage)
	}
	if isImage([]byte(text)) {
		return []byte(text), nil
	}
	file, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%.40q is neither an image nor base64 of one", text)
	}
	return file, nil
}

// isImage reports whether bytes begin as the file of an image does.
func isImage(file []byte) bool {
	for _, begin := range []string{"\x89PNG", "\xff\xd8\xff", "GIF8", "RIFF"} {
		if bytes.HasPrefix(file, []byte(begin)) {
			return true
		}
	}
	return false
}

// imageAt reads an image at a path below the folder of the row's file.
func imageAt(path, folder string) ([]byte, error) {
	name := filepath.FromSlash(path)
	if len(path) > maxPath {
		return nil, fmt.Errorf("a text of %d bytes that begins %.40q is neither an image, nor base64 of one, nor a path", len(path), path)
	}
	switch scheme, _, isURL := strings.Cut(path, "://"); {
	case isURL:
		return nil, fmt.Errorf("%.80q is on the network (%s), and a rollout must not depend on a server: download it, and name its path",
			path, scheme)
	case folder == "":
		return nil, fmt.Errorf("%.80q is a path, and the row is in no file: put bytes into the table", path)
	case !filepath.IsLocal(name):
		return nil, fmt.Errorf("%.80q is outside of %s: name a path below the folder of the rows", path, folder)
	}
	if blob, ok := hub.Linked(folder, name); ok {
		return durable.ReadRegular(blob, maxImage)
	}
	return durable.ReadWithin(folder, name, maxImage)
}
