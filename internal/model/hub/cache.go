package hub

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity/internal/durable"
)

// The layout of the cache is huggingface_hub's. In models--org--name, blobs/<etag> is the content
// of a file, refs/<revision> holds a commit, and snapshots/<commit>/<path> links to a blob.

func (c *client) repoDir(r repository) string { return filepath.Join(c.cache, r.folder()) }

// cached returns the snapshot of a revision; ok is false unless it is complete.
func (c *client) cached(r repository) (dir string, ok bool) {
	commit := r.revision
	if text, err := os.ReadFile(filepath.Join(c.repoDir(r), "refs", filepath.FromSlash(r.ref()))); err == nil {
		commit = strings.TrimSpace(string(text))
	}
	if !commitPattern.MatchString(commit) {
		return "", false
	}
	dir = filepath.Join(c.repoDir(r), "snapshots", commit)
	return dir, r.complete(dir)
}

// complete reports whether a snapshot has all files of the model or dataset. Other programs leave
// incomplete snapshots behind.
func (r repository) complete(dir string) bool {
	if r.dataset {
		found := false
		_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			found = found || err == nil && !entry.IsDir() && r.holds(filepath.ToSlash(path))
			return nil
		})
		return found
	}
	if !exists(dir, "config.json") {
		return false
	}
	if r.noWeights {
		return exists(dir, "tokenizer.json") || exists(dir, "model.safetensors")
	}
	if exists(dir, "model.safetensors") {
		return true
	}
	text, err := os.ReadFile(filepath.Join(dir, "model.safetensors.index.json"))
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err != nil || json.Unmarshal(text, &index) != nil || len(index.WeightMap) == 0 {
		return false
	}
	for _, shard := range index.WeightMap {
		if !safePath(shard) || !exists(dir, shard) {
			return false
		}
	}
	return true
}

func exists(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
	return err == nil && info.Mode().IsRegular()
}

// link links a blob into a snapshot: by a relative symbolic link or, if the system has none, by a
// hard link or a copy.
func link(snapshot, path, blob string) error {
	target := filepath.Join(snapshot, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(target), 0o777); err != nil {
		return err
	}
	relative, err := filepath.Rel(filepath.Dir(target), blob)
	if err != nil {
		return err
	}
	if current, err := os.Readlink(target); err == nil && current == relative {
		return nil
	}
	partial := target + ".partial"
	_ = os.Remove(partial) // left by a killed process
	if os.Symlink(relative, partial) != nil && os.Link(blob, partial) != nil {
		content, err := os.ReadFile(blob)
		if err != nil {
			return err
		}
		return durable.WriteFile(target, content)
	}
	return os.Rename(partial, target)
}

// Linked returns the blob that a name in a folder of a snapshot links to. ok is false if the folder is in
// no snapshot, or if the name is no link to one of the repository's blobs.
func Linked(folder, name string) (blob string, ok bool) {
	snapshot := folder
	for filepath.Base(filepath.Dir(snapshot)) != "snapshots" {
		up := filepath.Dir(snapshot)
		if up == snapshot {
			return "", false
		}
		snapshot = up
	}
	blobs, err := filepath.EvalSymlinks(filepath.Join(filepath.Dir(filepath.Dir(snapshot)), "blobs"))
	if err != nil {
		return "", false
	}
	blob, err = filepath.EvalSymlinks(filepath.Join(folder, name))
	return blob, err == nil && filepath.Dir(blob) == blobs
}

// remember records the commit of a revision. It runs last, so that every recorded commit has a
// complete snapshot.
func (c *client) remember(r repository, commit string) error {
	if commit == r.revision {
		return nil
	}
	path := filepath.Join(c.repoDir(r), "refs", filepath.FromSlash(r.ref()))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return durable.WriteFile(path, []byte(commit))
}
