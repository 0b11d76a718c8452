package blobs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
)

// Copy keeps the images of experiences, of which the store takes those that it lacks from another one. The
// error names the experience.
func (s Store) Copy(from Store, exps ...*trinity.Experience) error {
	kept := map[string]bool{}
	for _, e := range exps {
		for i, image := range e.Images {
			if kept[image.Digest] {
				continue
			}
			kept[image.Digest] = true
			if _, err := s.Get(image.Digest); err == nil {
				continue
			}
			if err := s.take(from, image.Digest); err != nil {
				return fmt.Errorf("experience %s: images[%d]: %w", e.ID, i, err)
			}
		}
	}
	return nil
}

// take keeps an image of another store: by a link, which takes no space, if both are on one disk and
// there is no file of that name.
func (s Store) take(from Store, digest string) error {
	file, err := from.Get(digest)
	if err != nil {
		return err
	}
	old, err := from.path(digest)
	if err != nil {
		return err
	}
	path, err := s.path(digest)
	if err != nil {
		return err
	}
	if err := durable.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if os.Link(old, path) != nil {
		return durable.WriteFile(path, file)
	}
	return durable.SyncPath(filepath.Dir(path))
}

// Link makes all images of the store readable in the store of another directory. What is put there does
// not change the store, and takes no space for an image that both have.
func (s Store) Link(dir string) error {
	to := In(dir)
	root, err := filepath.Abs(s.dir)
	if err != nil {
		return err
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".png" {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		link := filepath.Join(to.dir, below)
		if err := durable.MkdirAll(filepath.Dir(link), 0o777); err != nil {
			return err
		}
		if os.Symlink(path, link) == nil {
			return nil
		}
		file, err := durable.ReadRegular(path, MaxBytes) // a file system without links
		if err != nil {
			return err
		}
		return durable.WriteFile(link, file)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil // a run without images
	}
	return err
}
