package weights

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/internal/wire/files"
)

// Shelf is the trainer's side of weights that travel over HTTP: the published versions in the run's
// directory. Version N is a directory weights_N with the files of a model or of an adapter.
type Shelf struct {
	Dir    string         // the run's directory
	Engine engine.Trainer // writes the weights
	Oldest bool           // an explorer gets the oldest version that its step may use, not the newest
	Probe  *Probe         // the engine's scores lie beside each version; nil: there are none

	mu       sync.Mutex
	changed  wait.Point
	versions []manifest // ascending
	pinned   []pin      // of the last two checkpoints, because a run may resume from either
	ended    bool       // the trainer publishes nothing more
}

// pin is the version that was published when a checkpoint was written.
type pin struct {
	version int64
	again   bool // the checkpoint contains these weights, so the trainer can write them again
}

const versionPrefix = "weights_"

func (s *Shelf) path(version int64) string {
	return filepath.Join(s.Dir, versionPrefix+strconv.FormatInt(version, 10))
}

// Open reads the versions that an earlier process published. The run resumes with version. current
// reports whether the engine's weights are that version; if they are not, the engine must keep it
// (engine.Publisher). Open writes the version if it is missing. It removes newer versions, because
// a kill ended the history that they belong to.
func (s *Shelf) Open(ctx context.Context, version int64, current bool) error {
	if err := s.read(pin{version, current}); err != nil {
		return err
	}
	if version == 0 && current {
		if err := offer(ctx, s.Engine, 0); err != nil {
			return err
		}
	}
	if _, ok := s.newest(version); ok {
		return nil
	}
	save, err := saver(s.Engine, current)
	if err == nil {
		err = s.write(ctx, version, save, current)
	}
	if err != nil {
		return fmt.Errorf("version %d of the weights, with which the run resumes, is neither in %s nor in the checkpoint: %w",
			version, s.path(version), err)
	}
	return nil
}

// saver returns the function that writes the version with which a run resumes.
func saver(trainer engine.Trainer, current bool) (func(ctx context.Context, dir string) error, error) {
	if current {
		return versionOf(trainer), nil
	}
	p, ok := trainer.(engine.Publisher)
	if !ok {
		return nil, fmt.Errorf("a %T keeps no published weights: resume from the checkpoint of a step that published a version", trainer)
	}
	return p.SavePublished, nil
}

// versionOf returns the function that writes an engine's weights as a version.
func versionOf(trainer engine.Trainer) func(ctx context.Context, dir string) error {
	if w, ok := trainer.(engine.VersionWriter); ok {
		return w.SaveVersion
	}
	return trainer.SaveModel
}

// offer makes the engine keep its weights as a version, if it can. Checkpoints then contain the
// version.
func offer(ctx context.Context, trainer engine.Trainer, version int64) error {
	if p, ok := trainer.(engine.Publisher); ok {
		return p.Offer(ctx, version)
	}
	return nil
}

// RemoveVersions removes all versions that a trainer published in a run's directory.
func RemoveVersions(dir string) error {
	s := Shelf{Dir: dir}
	return s.read(pin{version: math.MinInt64})
}

// read reads the versions up to the published one and removes the others.
func (s *Shelf) read(published pin) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = []pin{published}
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), versionPrefix)
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

// add takes up a version that is on the disk. The lock is held.
func (s *Shelf) add(version int64) error {
	if err := durable.Verify(s.path(version)); err != nil {
		return fmt.Errorf("version %d of the weights: %w; remove %s and start the trainer again: "+
			"the trainer reports whether the run can resume without that version", version, err, s.path(version))
	}
	m, err := describe(version, s.path(version))
	if err != nil {
		return err
	}
	s.versions = append(s.versions, m)
	slices.SortFunc(s.versions, func(a, b manifest) int { return cmp.Compare(a.Number, b.Number) })
	return nil
}

// Publish writes the engine's weights as a version and offers them to the engine. It waits for
// nobody.
func (s *Shelf) Publish(ctx context.Context, version int64) error {
	if err := s.write(ctx, version, versionOf(s.Engine), true); err != nil {
		return err
	}
	return offer(ctx, s.Engine, version)
}

// write adds the version that save writes, or replaces it. current reports whether the engine's weights
// are that version.
func (s *Shelf) write(ctx context.Context, version int64, save func(ctx context.Context, dir string) error, current bool) error {
	err := durable.WriteDir(s.path(version), func(dir string) error {
		if err := save(ctx, dir); err != nil {
			return err
		}
		if s.Probe != nil && current {
			scores, err := s.Probe.ask(ctx, s.Engine, version)
			if err == nil {
				err = scores.write(dir)
			}
			if err != nil {
				return err
			}
		}
		return durable.Seal(dir)
	})
	if err != nil {
		return fmt.Errorf("publishing version %d: %w", version, err)
	}
	m, err := describe(version, s.path(version))
	if err != nil {
		return fmt.Errorf("publishing version %d: %w", version, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.versions = append(slices.DeleteFunc(s.versions, func(old manifest) bool { return old.Number == version }), m)
	s.changed.Signal()
	return nil
}

// describe reads the files of a version.
func describe(version int64, dir string) (manifest, error) {
	list, digest, err := files.List(dir)
	return manifest{Version: Version{Number: version, Digest: digest}, Files: list}, err
}

// Digest returns the digest of a version, or "" if the shelf does not have the version.
func (s *Shelf) Digest(version int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.versions {
		if m.Number == version {
			return m.Digest
		}
	}
	return ""
}

// Saved notes that a checkpoint was written while version was published. current reports whether
// that version is what the checkpoint contains.
func (s *Shelf) Saved(version int64, current bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = append(s.pinned, pin{version, current})
	s.pinned = s.pinned[max(0, len(s.pinned)-2):]
}

// End says that the trainer publishes nothing more.
func (s *Shelf) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.changed.Signal()
}

// Tidy removes the versions that nobody asks for any more. It keeps the two newest, those that a
// checkpoint may need, and those from floor on.
func (s *Shelf) Tidy(floor int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	recent := int64(math.MinInt64)
	if n := len(s.versions); n >= 2 {
		recent = s.versions[n-2].Number
	}
	return s.keep(func(version int64) bool { return version >= recent || version >= floor || s.isNeeded(version, true) })
}

// Clear removes, at the end of a run, all versions but those that a checkpoint needs and does not
// contain.
func (s *Shelf) Clear() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep(func(version int64) bool { return s.isNeeded(version, false) })
}

// isNeeded reports whether a checkpoint may need a version. Without again it leaves out versions
// that the trainer can write again from the checkpoint. The lock is held.
func (s *Shelf) isNeeded(version int64, again bool) bool {
	early := version < s.pinned[0].version && len(s.pinned) < 2 // the checkpoint before may need it
	return early || slices.ContainsFunc(s.pinned, func(p pin) bool { return p.version == version && (again || !p.again) })
}

// keep removes the versions that are not wanted. The lock is held.
func (s *Shelf) keep(wanted func(version int64) bool) error {
	var left []manifest
	var errs []error
	for _, m := range s.versions {
		if wanted(m.Number) {
			left = append(left, m)
		} else {
			errs = append(errs, durable.RemoveDir(s.path(m.Number)))
		}
	}
	s.versions = left
	return errors.Join(errs...)
}
