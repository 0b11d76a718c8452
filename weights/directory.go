package weights

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/durable"
)

type directory struct{}

// Shares implements Way.
func (directory) Shares() bool { return false }

// Open implements Way.
func (directory) Open(ctx context.Context, l Link) (Synchronizer, error) {
	loader, ok := l.Sampler.(Loader)
	if !ok {
		return nil, fmt.Errorf("the sampler (%T) cannot load weights from a directory: choose another sampler, or mode bench", l.Sampler)
	}
	f := &byDirectory{
		engine: l.Engine, sampler: loader, dir: filepath.Join(l.Dir, "weights"), version: l.Version, loaded: -1, evidence: evidenceOf(l),
	}
	if err := os.RemoveAll(f.dir); err != nil { // a killed process may have left it
		return nil, err
	}
	if _, resident := loader.(Resident); resident || l.Version > 0 {
		if err := f.resume(ctx, l.Current); err != nil {
			return nil, fmt.Errorf("version %d of the weights, with which the run begins: %w", l.Version, err)
		}
	}
	m := NewMemory(f, l.Version, l.Handover, l.Timeout)
	m.sleeper, _ = loader.(Sleeper)
	return m, nil
}

// byDirectory is an Offerer whose versions are model directories. Memory calls one method at a time.
type byDirectory struct {
	engine  engine.Trainer
	sampler Loader
	dir     string        // holds a directory of each version that the sampler may read
	version int64         // that Offer wrote last
	loaded  int64         // that the sampler has loaded last
	wrote   time.Duration // that it took to write it
	evidence
}

// Offer writes the engine's weights.
func (f *byDirectory) Offer(ctx context.Context, version int64) error {
	if err := offer(ctx, f.engine, version); err != nil {
		return err
	}
	f.version = version
	if err := f.learn(ctx, f.engine, version); err != nil {
		return err
	}
	return f.write(ctx, versionOf(f.engine)) // last: the engine then frees the GPUs that it shares with a sampler
}

// Adopt loads the version that Offer wrote last, and removes the directories that nobody reads.
func (f *byDirectory) Adopt(ctx context.Context) (int64, error) {
	begin := time.Now()
	if err := f.sampler.LoadWeights(ctx, versionDir(f.dir, f.version), f.version); err != nil {
		return 0, err
	}
	took := time.Since(begin).Seconds()
	f.loaded = f.version
	if err := leave(f.dir, kept(f.sampler, f.loaded)...); err != nil {
		return f.version, err
	}
	return f.version, f.tell(ctx, f.version, trinity.Metrics{"sync/write": f.wrote.Seconds(), "sync/load": took})
}

func (f *byDirectory) write(ctx context.Context, save func(ctx context.Context, dir string) error) error {
	begin := time.Now()
	defer func() { f.wrote = time.Since(begin) }()
	if err := durable.WriteDir(versionDir(f.dir, f.version), func(dir string) error { return save(ctx, dir) }); err != nil {
		return err
	}
	return leave(f.dir, f.loaded, f.version)
}

// versionDir returns the directory of a version below dir.
func versionDir(dir string, version int64) string {
	return filepath.Join(dir, strconv.FormatInt(version, 10))
}

// kept returns the versions whose directories a sampler may read after it has loaded one.
func kept(sampler Loader, loaded int64) []int64 {
	if _, ok := sampler.(Resident); ok {
		return []int64{loaded}
	}
	return nil
}

// leave removes all directories below dir but those of the given versions.
func leave(dir string, versions ...int64) error {
	all, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return nil
	}
	for _, entry := range all {
		if version, failed := strconv.ParseInt(entry.Name(), 10, 64); failed != nil || !slices.Contains(versions, version) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	return err
}

// resume brings the version of a checkpoint into use.
func (f *byDirectory) resume(ctx context.Context, current bool) error {
	save, err := saver(f.engine, current)
	if err != nil {
		return err
	}
	if current {
		if err := f.learn(ctx, f.engine, f.version); err != nil {
			return err
		}
	}
	if err := f.write(ctx, save); err != nil {
		return err
	}
	_, err = f.Adopt(ctx)
	return err
}
