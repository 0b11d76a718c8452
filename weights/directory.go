package weights

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity"
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
	f := &files{engine: l.Engine, sampler: loader, dir: filepath.Join(l.Dir, "weights"), version: l.Version}
	if err := os.RemoveAll(f.dir); err != nil { // a killed process may have left it
		return nil, err
	}
	_, resident := loader.(Resident)
	if resident || l.Version > 0 {
		err := f.resume(ctx, l.Current)
		if err == nil && resident && l.Current {
			err = recognise(ctx, l.Engine, l.Sampler)
		}
		if err != nil {
			return nil, fmt.Errorf("version %d of the weights, with which the run begins: %w", l.Version, err)
		}
	}
	return NewMemory(f, l.Version, l.Handover, l.Timeout), nil
}

// files is an Offerer whose versions are model directories. Memory calls one method at a time.
type files struct {
	engine  trinity.Engine
	sampler Loader
	dir     string // holds the newest version alone
	version int64
}

// Offer writes the engine's weights.
func (f *files) Offer(ctx context.Context, version int64) error {
	if err := offer(ctx, f.engine, version); err != nil {
		return err
	}
	f.version = version
	return f.write(ctx, f.engine.SaveModel)
}

// Adopt loads the version that Offer wrote last, and removes its directory.
func (f *files) Adopt(ctx context.Context) (int64, error) {
	if err := f.sampler.LoadWeights(ctx, f.dir, f.version); err != nil {
		return 0, err
	}
	return f.version, os.RemoveAll(f.dir)
}

func (f *files) write(ctx context.Context, save func(ctx context.Context, dir string) error) error {
	return durable.WriteDir(f.dir, func(dir string) error { return save(ctx, dir) })
}

// resume brings the version of a checkpoint into use.
func (f *files) resume(ctx context.Context, current bool) error {
	save, err := saver(f.engine, current)
	if err != nil {
		return err
	}
	if err := f.write(ctx, save); err != nil {
		return err
	}
	_, err = f.Adopt(ctx)
	return err
}
