package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// parallel is how many files are fetched at once.
const parallel = 4

func (c *client) pull(ctx context.Context, name string, o Options) (string, error) {
	r, err := parseName(name)
	if err != nil {
		return "", err
	}
	if o.Revision != "" {
		if r, err = r.at(o.Revision); err != nil {
			return "", err
		}
	}
	if c.offline {
		if dir, ok := c.cached(r); ok {
			return dir, nil
		}
		return "", fmt.Errorf("hub: %s: no complete copy of revision %s in %s, and HF_HUB_OFFLINE forbids to fetch one", r, r.revision, c.cache)
	}
	commit, files, err := c.list(ctx, r)
	var gone unreachable
	if errors.As(err, &gone) {
		if dir, ok := c.cached(r); ok {
			return dir, nil
		}
	}
	if err != nil {
		return "", err
	}
	return c.fetchAll(ctx, r, commit, files, o.Progress)
}

// fetchAll fills the snapshot and then makes it the revision's.
func (c *client) fetchAll(ctx context.Context, r repository, commit string, files []remoteFile, progress func(Progress)) (string, error) {
	dir := c.repoDir(r)
	blobs, snapshot := filepath.Join(dir, "blobs"), filepath.Join(dir, "snapshots", commit)
	locks := filepath.Join(c.cache, ".locks", r.folder())
	for _, d := range []string{blobs, snapshot, locks} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			return "", fmt.Errorf("hub: %s: %w", r, err)
		}
	}
	if err := inParallel(ctx, len(files), func(ctx context.Context, i int) error { return c.inspect(ctx, r, &files[i]) }); err != nil {
		return "", err
	}
	meter := newMeter(files, progress)
	err := inParallel(ctx, len(files), func(ctx context.Context, i int) error {
		f := files[i]
		return c.fetch(ctx, r, f, filepath.Join(blobs, f.etag), filepath.Join(locks, f.etag+".lock"), meter)
	})
	if err != nil {
		return "", err
	}
	unlock, err := acquire(ctx, filepath.Join(locks, "snapshots.lock"))
	if err != nil {
		return "", fmt.Errorf("hub: %s: lock: %w", r, err)
	}
	defer unlock()
	for _, f := range files {
		if err := link(snapshot, f.path, filepath.Join(blobs, f.etag)); err != nil {
			return "", fmt.Errorf("hub: %s: %w", r, err)
		}
	}
	if !r.complete(snapshot) {
		return "", fmt.Errorf("hub: %s at %s lacks files that its index of weights names", r, r.revision)
	}
	if err := c.remember(r, commit); err != nil {
		return "", fmt.Errorf("hub: %s: %w", r, err)
	}
	return snapshot, nil
}

// inParallel calls do for 0 … n−1, a few at once, and returns the first error, which stops the others.
func inParallel(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range min(parallel, n) {
		workers.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	return context.Cause(ctx)
}

// meter adds up the progress of files fetched at the same time.
type meter struct {
	mu       sync.Mutex
	report   func(Progress)
	done     map[string]int64
	allDone  int64
	allTotal int64
}

func newMeter(files []remoteFile, report func(Progress)) *meter {
	m := &meter{report: report, done: map[string]int64{}}
	for _, f := range files {
		m.allTotal += max(f.size, 0)
	}
	return m
}

// set notes that the first done bytes of a file are here.
func (m *meter) set(f remoteFile, done int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.allDone += done - m.done[f.path]
	m.done[f.path] = done
	if m.report != nil {
		m.report(Progress{File: f.path, Done: done, Total: max(f.size, done), AllDone: m.allDone, AllTotal: max(m.allTotal, m.allDone)})
	}
}
