package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity/internal/durable"
)

// shelf is the published versions in a run's directory, each a model directory, or an adapter's, by the name weights_N.
type shelf struct {
	dir      string
	versions []weights // ascending
	pinned   []pin     // what the last two checkpoints were published with: a run may go on from either
}

// pin is the version that a checkpoint was written with.
type pin struct {
	version int64
	again   bool // the checkpoint has its weights, from which it can be made again
}

const weightsPrefix = "weights_"

func (s *shelf) path(version int64) string {
	return filepath.Join(s.dir, weightsPrefix+strconv.FormatInt(version, 10))
}

// open reads what an earlier process has published, up to the version that the run goes on with. What is newer is of a history that a kill has ended.
func (s *shelf) open(published pin) error {
	s.pinned = []pin{published}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), weightsPrefix)
		v, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil {
			continue
		}
		if v > published.version {
			err = durable.RemoveDir(s.path(v))
		} else {
			err = s.add(v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// add takes up a version that is on the disk.
func (s *shelf) add(version int64) error {
	if err := durable.Verify(s.path(version)); err != nil {
		return fmt.Errorf("version %d of the weights: %w; remove %s, and the trainer says whether the run can go on without", version, err, s.path(version))
	}
	w, err := describe(s.path(version))
	if err != nil {
		return err
	}
	w.Version = version
	s.versions = append(s.versions, w)
	slices.SortFunc(s.versions, func(a, b weights) int { return cmp.Compare(a.Version, b.Version) })
	return nil
}

// describe reads the files of a directory.
func describe(dir string) (weights, error) {
	var w weights
	digest := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		size, sum, err := sumFile(path)
		if err != nil {
			return err
		}
		w.Files = append(w.Files, weightsFile{filepath.ToSlash(name), size, sum})
		return nil
	})
	for _, f := range w.Files {
		fmt.Fprintf(digest, "%s  %s\n", f.SHA256, f.Name)
	}
	w.Digest = hex.EncodeToString(digest.Sum(nil))
	return w, err
}

func sumFile(path string) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	h := sha256.New()
	size, err = io.Copy(h, f)
	return size, hex.EncodeToString(h.Sum(nil)), errors.Join(err, f.Close())
}

// oldest returns the oldest version from min on; newest the newest, if it is not older than min.
func (s *shelf) oldest(min int64) (weights, bool) {
	for _, w := range s.versions {
		if w.Version >= min {
			return w, true
		}
	}
	return weights{}, false
}

func (s *shelf) newest(min int64) (weights, bool) {
	if n := len(s.versions); n > 0 && s.versions[n-1].Version >= min {
		return s.versions[n-1], true
	}
	return weights{}, false
}

// file finds a file of a version: a request names nothing else.
func (s *shelf) file(version int64, name string) (path string, ok bool) {
	for _, w := range s.versions {
		if w.Version == version && slices.ContainsFunc(w.Files, func(f weightsFile) bool { return f.Name == name }) {
			return filepath.Join(s.path(version), filepath.FromSlash(name)), true
		}
	}
	return "", false
}

// saved notes that a checkpoint was written with a version.
func (s *shelf) saved(published pin) {
	s.pinned = append(s.pinned, published)
	s.pinned = s.pinned[max(0, len(s.pinned)-2):]
}

// tidy removes what nobody asks for any more: no checkpoint needs it, it is not one of the two newest, and it is older than floor, which explorers have.
func (s *shelf) tidy(floor int64) error {
	recent := int64(math.MinInt64)
	if n := len(s.versions); n >= 2 {
		recent = s.versions[n-2].Version
	}
	return s.keep(func(version int64) bool { return version >= recent || version >= floor || s.needed(version, true) })
}

// clear removes, at the end of a run, all but what a checkpoint needs and does not have itself.
func (s *shelf) clear() error {
	return s.keep(func(version int64) bool { return s.needed(version, false) })
}

// needed says whether a checkpoint may need a version; again asks for those too that it can make again.
func (s *shelf) needed(version int64, again bool) bool {
	early := version < s.pinned[0].version && len(s.pinned) < 2 // the checkpoint before may need it
	return early || slices.ContainsFunc(s.pinned, func(p pin) bool { return p.version == version && (again || !p.again) })
}

// keep removes all versions but some.
func (s *shelf) keep(wanted func(version int64) bool) error {
	var left []weights
	var errs []error
	for _, w := range s.versions {
		if wanted(w.Version) {
			left = append(left, w)
		} else {
			errs = append(errs, durable.RemoveDir(s.path(w.Version)))
		}
	}
	s.versions = left
	return errors.Join(errs...)
}
