// Package blobs keeps the images of a run, each once, by the digest of its file. Experiences have
// digests alone, so that a group of rollouts does not carry its image many times.
package blobs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// Folder is the folder of the images in the directory of a run.
const Folder = "blobs"

const (
	scheme   = "sha256:"
	MaxBytes = 1 << 28 // of a blob: 64 megapixels are 192 MB at most
)

// Digest returns the digest of a file: sha256:HEX.
func Digest(file []byte) string {
	sum := sha256.Sum256(file)
	return scheme + hex.EncodeToString(sum[:])
}

// Store is the images of a run.
type Store struct{ dir string }

// In returns the store in the directory of a run. It makes no folder before the first Put.
func In(dir string) Store { return Store{filepath.Join(dir, Folder)} }

// Put keeps a file, which is on the disk when Put returns, and returns its digest. It writes nothing
// if the store has the file, and replaces one that somebody has changed.
func (s Store) Put(file []byte) (digest string, err error) {
	if len(file) > MaxBytes {
		return "", fmt.Errorf("an image of %d bytes is too large to be kept: at most %d", len(file), MaxBytes)
	}
	digest = Digest(file)
	path, err := s.path(digest)
	if err != nil {
		return "", err
	}
	if old, err := durable.ReadRegular(path, MaxBytes); err == nil && bytes.Equal(old, file) {
		return digest, nil
	}
	if err := durable.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", err
	}
	return digest, durable.WriteFile(path, file)
}

// Get returns the file with a digest. The error says that it is missing, or is no longer that file.
func (s Store) Get(digest string) ([]byte, error) {
	path, err := s.path(digest)
	if err != nil {
		return nil, err
	}
	file, err := durable.ReadRegular(path, MaxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the image %s is missing: %s was removed, or the run was copied without its folder %s", digest, path, Folder)
	case err != nil:
		return nil, err
	case Digest(file) != digest:
		return nil, fmt.Errorf("the image %s was changed: %s has the digest %s", digest, path, Digest(file))
	}
	return file, nil
}

// Images returns the files of the images of an experience. The error names the experience.
func (s Store) Images(e *trinity.Experience) (files [][]byte, err error) {
	for i, image := range e.Images {
		file, err := s.Get(image.Digest)
		if err != nil {
			return nil, fmt.Errorf("experience %s: images[%d]: %w", e.ID, i, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// path returns the path of a file: the first two digits of its digest are a folder, because
// file systems are slow with folders of many files.
func (s Store) path(digest string) (string, error) {
	sum, ok := strings.CutPrefix(digest, scheme)
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != sha256.Size || strings.ToLower(sum) != sum {
		return "", fmt.Errorf("%q is no digest of an image: want %s and %d hexadecimal digits", digest, scheme, 2*sha256.Size)
	}
	return filepath.Join(s.dir, sum[:2], sum+".png"), nil
}
