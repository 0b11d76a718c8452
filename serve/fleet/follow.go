package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/failpoint"
)

var failFetched = failpoint.New("remote.fetched") // when a file of weights has arrived, before it is checked

// Follower gives an explorer's sampler the weights of a trainer of another process.
type Follower struct {
	Client *Client
	Dir    string                                                     // of this explorer alone, for weights on their way
	Load   func(ctx context.Context, dir string, version int64) error // gives them to the sampler

	Quiet bool // it is no explorer: it takes the newest version in any sync_style, and the trainer is not told

	mu sync.Mutex // one version at a time
}

// Wait implements trinity.Synchronizer. Which version is in use follows, in sync_style fixed, from min alone: the oldest that the trainer has from min on.
func (f *Follower) Wait(ctx context.Context, min int64, newest bool) (int64, error) {
	now := f.Client.inUse()
	if now.Version >= min && !newest {
		return now.Version, nil
	}
	ctx, cancel := f.Client.limited(ctx)
	defer cancel()
	if now.Version < min { // before the lock: meanwhile Follow loads what comes before it, for the steps that are under way
		if err := f.published(ctx, min); err != nil {
			return 0, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.take(ctx, min)
}

// published waits for a version.
func (f *Follower) published(ctx context.Context, min int64) error {
	return f.Client.persist(ctx, fmt.Sprintf("publish version %d", min), func(ctx context.Context, at address) error {
		_, err := f.ask(ctx, at, min, "")
		return err
	})
}

// Follow loads every version as soon as it is there, in the middle of a step too, until ctx is cancelled or the trainer has ended.
func (f *Follower) Follow(ctx context.Context) error {
	for {
		err := f.next(ctx)
		switch {
		case ctx.Err() != nil, errors.Is(err, trinity.ErrEnded):
			return nil
		case err != nil:
			return err
		}
	}
}

// next waits for other weights than those in use.
func (f *Follower) next(ctx context.Context) error {
	digest := f.Client.inUse().Digest
	err := f.Client.persist(ctx, "publish another version", func(ctx context.Context, at address) error {
		_, err := f.ask(ctx, at, 0, digest)
		return err
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err = f.take(ctx, 0)
	return err
}

// ExplorerDone implements trinity.Synchronizer: the trainer waits for nobody.
func (f *Follower) ExplorerDone() {}

// take loads the version that min asks for, unless it is in use; the lock is held.
func (f *Follower) take(ctx context.Context, min int64) (int64, error) {
	var found weights
	err := f.Client.persist(ctx, fmt.Sprintf("publish version %d", min), func(ctx context.Context, at address) (err error) {
		if found, err = f.ask(ctx, at, min, ""); err != nil || found.using == f.Client.inUse() {
			return err
		}
		return f.fetchAll(ctx, at, found)
	})
	if err != nil || found.using == f.Client.inUse() {
		return found.Version, err
	}
	if err := errors.Join(f.Load(ctx, f.Dir, found.Version), os.RemoveAll(f.Dir)); err != nil {
		return 0, fmt.Errorf("loading version %d: %w", found.Version, err)
	}
	return found.Version, f.note(ctx, found.using)
}

// ask asks which version there is from min on, other than that of a digest.
func (f *Follower) ask(ctx context.Context, at address, min int64, unlike string) (weights, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*pollWindow) // a connection that hangs is given up
	defer cancel()
	query := url.Values{"min": {strconv.FormatInt(min, 10)}, "unlike": {unlike}, "newest": {strconv.FormatBool(f.Quiet)}}
	var found weights
	err := f.Client.request(ctx, at, http.MethodGet, "/v1/versions?"+query.Encode(), nil, &found)
	if err == nil && found.Ended {
		err = fmt.Errorf("version %d is never published: %w", min, trinity.ErrEnded)
	}
	return found, err
}

// fetchAll fetches the files of a version, and checks that they are what was published.
func (f *Follower) fetchAll(ctx context.Context, at address, found weights) error {
	if err := os.RemoveAll(f.Dir); err != nil {
		return err
	}
	for _, file := range found.Files {
		if !filepath.IsLocal(filepath.FromSlash(file.Name)) {
			return fmt.Errorf("the trainer names a file %q, outside of its directory", file.Name)
		}
		if err := f.fetch(ctx, at, found.Version, file); err != nil {
			return err
		}
	}
	return nil
}

// fetch writes one file.
func (f *Follower) fetch(ctx context.Context, at address, version int64, file weightsFile) (err error) {
	path := filepath.Join(f.Dir, filepath.FromSlash(file.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	resp, err := f.Client.send(ctx, at, http.MethodGet, fmt.Sprintf("/v1/versions/%d/%s", version, (&url.URL{Path: file.Name}).EscapedPath()), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(out, io.TeeReader(resp.Body, sum))
	if failed := failFetched.Hit(path); failed != nil {
		return errors.Join(failed, out.Close())
	}
	if closed := out.Close(); closed != nil {
		return closed
	}
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != file.SHA256 {
		err = fmt.Errorf("%s of version %d did not arrive as it was published", file.Name, version)
	}
	if err != nil {
		return unreachable{err}
	}
	return nil
}

// inUse is what the sampler has.
func (c *Client) inUse() using {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.using
}

// note remembers what the sampler has, and tells the trainer of an explorer.
func (f *Follower) note(ctx context.Context, u using) error {
	c := f.Client
	c.mu.Lock()
	c.using = u
	c.mu.Unlock()
	if f.Quiet {
		return nil
	}
	body, err := json.Marshal(u)
	if err != nil {
		return err
	}
	return c.tell(ctx, "/using", body)
}
