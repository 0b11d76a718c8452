package synchronizer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/durable"
)

// Checkpoint synchronizes a trainer and explorers of different processes through a directory that both see: each version is a model directory,
// and a small file names the newest.
type Checkpoint struct {
	Dir     string
	Write   func(ctx context.Context, dir string) error                // writes the trainer's weights; nil on the explorer's side
	Load    func(ctx context.Context, dir string, version int64) error // gives them to the sampler; nil on the trainer's side
	Timeout time.Duration
	Poll    time.Duration // between looks at the directory

	mu      sync.Mutex
	version int64 // in use by the sampler
}

const (
	latestWeights = "latest_state_dict_iteration.txt"
	weightsPrefix = "weights_"
	doneMark      = "trainer_done"
)

// Publish implements trinity.Synchronizer: it writes the version and removes those before the last. It waits for nobody, since explorers of
// other processes take their own time.
func (c *Checkpoint) Publish(ctx context.Context, version int64) error {
	if err := durable.WriteDir(c.weights(version), func(dir string) error { return c.Write(ctx, dir) }); err != nil {
		return fmt.Errorf("publishing version %d: %w", version, err)
	}
	before, err := c.latest()
	if err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(c.Dir, latestWeights), []byte(strconv.FormatInt(version, 10))); err != nil {
		return err
	}
	return c.removeOlder(min(before, version))
}

// Wait implements trinity.Synchronizer.
func (c *Checkpoint) Wait(ctx context.Context, min int64, newest bool) (int64, error) {
	deadline := time.Now().Add(c.Timeout)
	for {
		ended := c.trainerEnded() // looked up first: what it published before ending still counts
		version, err := c.catchUp(ctx, min, newest)
		switch {
		case err != nil:
			return 0, err
		case version >= min:
			return version, nil
		case ended:
			return 0, fmt.Errorf("version %d is never published: %w", min, trinity.ErrEnded)
		case time.Now().After(deadline):
			return 0, fmt.Errorf("waiting for the trainer to publish version %d in %s: synchronizer.sync_timeout of %v passed; is a run in mode train using this directory?", min, c.Dir, c.Timeout)
		}
		if err := pause(ctx, c.Poll); err != nil {
			return 0, err
		}
	}
}

// catchUp loads the newest version where min or newest asks for it, and returns what is in use then.
func (c *Checkpoint) catchUp(ctx context.Context, min int64, newest bool) (int64, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.version >= min && !newest {
		return c.version, nil
	}
	latest, err := c.latest()
	if err != nil || latest <= c.version {
		return c.version, err
	}
	if err := c.Load(ctx, c.weights(latest), latest); err != nil {
		return 0, fmt.Errorf("loading version %d: %w", latest, err)
	}
	c.version = latest
	return latest, nil
}

// Follow loads every version as soon as it is there, in the middle of a step too, until ctx is cancelled, or the trainer has ended.
func (c *Checkpoint) Follow(ctx context.Context) error {
	for ctx.Err() == nil && !c.trainerEnded() {
		if _, err := c.catchUp(ctx, 0, true); err != nil {
			return err
		}
		if err := pause(ctx, c.Poll); err != nil {
			return nil
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// ExplorerDone implements trinity.Synchronizer; the trainer of another process does not wait for this one.
func (c *Checkpoint) ExplorerDone() {}

// TrainerDone implements trinity.Synchronizer. If the mark cannot be written, explorers end by their deadline.
func (c *Checkpoint) TrainerDone() {
	_ = os.WriteFile(filepath.Join(c.Dir, doneMark), nil, 0o644)
}

// TrainerStarts removes the mark that an earlier process left.
func (c *Checkpoint) TrainerStarts() error {
	err := os.Remove(filepath.Join(c.Dir, doneMark))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (c *Checkpoint) trainerEnded() bool {
	_, err := os.Stat(filepath.Join(c.Dir, doneMark))
	return err == nil
}

func (c *Checkpoint) weights(version int64) string {
	return filepath.Join(c.Dir, weightsPrefix+strconv.FormatInt(version, 10))
}

// latest reads the newest published version; 0 when there is none.
func (c *Checkpoint) latest() (int64, error) {
	data, err := os.ReadFile(filepath.Join(c.Dir, latestWeights))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: want a number, got %q", filepath.Join(c.Dir, latestWeights), data)
	}
	return v, nil
}

// removeOlder removes the versions before keep.
func (c *Checkpoint) removeOlder(keep int64) error {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), weightsPrefix)
		v, err := strconv.ParseInt(number, 10, 64)
		if !ok || err != nil || v >= keep {
			continue
		}
		if err := os.RemoveAll(filepath.Join(c.Dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}
