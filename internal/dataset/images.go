package dataset

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// maxImage bounds the file of an image, in bytes.
const maxImage = 20 << 20

// ImagesOf returns the files of the images at a key of row i, in order; none if the row has no value
// there. The value is an image or a list of images, and each is
//   - an object with bytes or path, as Hugging Face datasets have it in columns of type Image;
//   - bytes, which rows have in base64;
//   - a URL that begins with data:;
//   - a path below the folder of the row's file.
//
// An image on the network is an error, because a rollout must not depend on a server. Errors name the
// file, the line and the key.
func ImagesOf(d *Dataset, i int, key string) ([][]byte, error) {
	row, err := d.Row(i)
	if err != nil {
		return nil, err
	}
	s, at, err := d.find(i)
	if err != nil {
		return nil, err
	}
	value, ok := (&trinity.Task{Row: row}).Field(key)
	if !ok {
		return nil, fmt.Errorf("%s: no field %q: check format.image_key", s.where(at), key)
	}
	list, isList := value.([]any)
	if !isList && value != nil {
		list = []any{value}
	}
	var files [][]byte
	for k, v := range list {
		file, err := imageOf(v, s.folder(at))
		if err != nil {
			name := key
			if isList {
				name = fmt.Sprintf("%s[%d]", key, k)
			}
			return nil, fmt.Errorf("%s: %s: %w", s.where(at), name, err)
		}
		files = append(files, file)
	}
	return files, nil
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
	switch scheme, _, isURL := strings.Cut(path, "://"); {
	case isURL:
		return nil, fmt.Errorf("%.80q is on the network (%s), and a rollout must not depend on a server: download it, and name its path",
			path, scheme)
	case folder == "":
		return nil, fmt.Errorf("%.80q is a path, and the row is in no file: put bytes into the table", path)
	case !filepath.IsLocal(name):
		return nil, fmt.Errorf("%.80q is outside of %s: name a path below the folder of the rows", path, folder)
	}
	return durable.ReadWithin(folder, name, maxImage)
}
