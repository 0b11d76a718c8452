package hub

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/retry"
)

// parallel is the number of files that a pull downloads at once.
const parallel = 4

// progress is how far a pull has come.
type progress struct {
	file  string // path inside the repository
	done  int64  // bytes of all files, including files that were in the cache already
	total int64
}

// lines returns a function that reports progress to say, one line for every tenth. It returns nil
// if say is nil.
func lines(say func(string)) func(progress) {
	if say == nil {
		return nil
	}
	said := int64(-1)
	return func(p progress) {
		if p.total == 0 {
			return
		}
		if tenth := 10 * p.done / p.total; tenth > said {
			said = tenth
			say(fmt.Sprintf("fetching %s: %d of %d MB", p.file, p.done>>20, p.total>>20))
		}
	}
}

// pull is [Pull]; report, which may be nil, gets the progress of every file, one call at a time.
func (c *client) pull(ctx context.Context, name, revision string, report func(progress)) (string, error) {
	r, err := parseName(name)
	if err != nil {
		return "", err
	}
	if revision != "" {
		if r, err = r.at(revision); err != nil {
			return "", err
		}
	}
	r.noWeights = c.noWeights
	if c.offline {
		if dir, ok := c.cached(r); ok {
			return dir, nil
		}
		return "", fmt.Errorf("hub: %s: no complete copy of revision %s in %s, and HF_HUB_OFFLINE forbids downloads", r, r.revision, c.cache)
	}
	commit, files, err := c.list(ctx, r)
	if retry.IsTemporary(err) {
		if dir, ok := c.cached(r); ok {
			return dir, nil
		}
	}
	if err != nil {
		return "", err
	}
	return c.fetchAll(ctx, r, commit, files, report)
}

// fetchAll fills the snapshot and then records it as the revision's.
func (c *client) fetchAll(ctx context.Context, r repository, commit string, files []remoteFile, report func(progress)) (string, error) {
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
	meter := newMeter(files, report)
	err := inParallel(ctx, len(files), func(ctx context.Context, i int) error {
		f := files[i]
		return c.fetch(ctx, r, f, filepath.Join(blobs, f.etag), filepath.Join(locks, f.etag+".lock"), meter)
	})
	if err != nil {
		return "", err
	}
	unlock, err := durable.Acquire(ctx, filepath.Join(locks, "snapshots.lock"))
	if err != nil {
		return "", fmt.Errorf("hub: %s: %w", r, err)
	}
	defer unlock()
	for _, f := range files {
		if err := link(snapshot, f.path, filepath.Join(blobs, f.etag)); err != nil {
			return "", fmt.Errorf("hub: %s: %w", r, err)
		}
	}
	if !r.complete(snapshot) {
		return "", fmt.Errorf("hub: %s at %s lacks files that its index of weights lists", r, r.revision)
	}
	if err := c.remember(r, commit); err != nil {
		return "", fmt.Errorf("hub: %s: %w", r, err)
	}
	return snapshot, nil
}

// inParallel calls do for 0 … n−1, a few at once, and returns the first error, which stops the
// others.
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

// meter adds up the progress of parallel downloads.
type meter struct {
	mu       sync.Mutex
	report   func(progress)
	done     map[string]int64
	allDone  int64
	allTotal int64
}

func newMeter(files []remoteFile, report func(progress)) *meter {
	m := &meter{report: report, done: map[string]int64{}}
	for _, f := range files {
		m.allTotal += max(f.size, 0)
	}
	return m
}

// set records that the first done bytes of a file have arrived.
func (m *meter) set(f remoteFile, done int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.allDone += done - m.done[f.path]
	m.done[f.path] = done
	if m.report != nil {
		m.report(progress{file: f.path, done: m.allDone, total: max(m.allTotal, m.allDone)})
	}
}
