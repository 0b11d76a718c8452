package weights

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/internal/wire/files"
)

var failFetched = failpoint.New("remote.fetched") // when a file of weights has arrived, before the follower checks it

// Trainer connects a Follower to the Shelf of a trainer in another process.
type Trainer interface {
	// Try calls do until it succeeds or fails for good. It retries if the trainer is unreachable or
	// has no such version yet, or if the error is temporary (package retry). what completes the
	// error "waiting for the trainer to …".
	Try(ctx context.Context, what string, do func(ctx context.Context, from Getter) error) error
	// Loaded tells the trainer which version the explorer's sampler has.
	Loaded(ctx context.Context, v Version) error
}

// Getter sends GET requests to a trainer.
type Getter interface {
	// Get returns the body of the reply.
	Get(ctx context.Context, path string) (io.ReadCloser, error)
	// GetJSON decodes the reply into out.
	GetJSON(ctx context.Context, path string, out any) error
}

// Follower is the sampler's side of weights that travel over HTTP: it loads what a trainer in
// another process publishes.
type Follower struct {
	Trainer Trainer
	Dir     string                                                     // for the versions' files; Close removes it
	Load    func(ctx context.Context, dir string, version int64) error // loads a directory into the sampler
	Keep    bool                                                       // a version's files stay until the next is loaded, as for a Resident
	Timeout time.Duration                                              // of Wait: synchronizer.sync_timeout
	// Observer says that no explorer uses the sampler. An observer loads the newest version in
	// every sync_style and does not report it to the trainer.
	Observer bool
	// Report receives the metrics of a version that has come into use; nil receives nothing.
	Report func(ctx context.Context, version int64, m trinity.Metrics) error

	proof *proof       // nil if versions are not proven
	say   func(string) // about the proof

	loading sync.Mutex              // one version at a time; guards holds, release and mute
	mute    bool                    // say has told that nothing proves the versions
	inUse   atomic.Pointer[Version] // nil before the first
	holds   int                     // calls of Held that have not returned
	release wait.Point              // when there are none
}

// Prove makes the follower prove each version that a sampler loads with the scores that the trainer has
// published beside it. alone says that nobody samples while the sampler loads; digests are the versions
// between two comparisons of its copies' digests.
func (f *Follower) Prove(of Provable, alone bool, digests int, say func(string)) {
	f.proof, f.say = newProof(say), say
	of.Prove(f.proof.proving(alone, digests))
}

// Wait implements the explorer's side of a Synchronizer. In sync_style fixed the version depends on
// min alone: it is the oldest version ≥ min that the trainer has.
func (f *Follower) Wait(ctx context.Context, min int64, newest bool) (int64, error) {
	now, has := f.has(min)
	if has && !newest {
		return now.Number, nil
	}
	ctx, cancel := limited(ctx, f.Timeout)
	defer cancel()
	if !has { // before the lock: meanwhile Follow loads earlier versions, for the steps in flight
		if err := f.published(ctx, min); err != nil {
			return 0, err
		}
	}
	err := f.release.Await(ctx, &f.loading, func() bool { now, has = f.has(min); return f.holds == 0 || has })
	if err != nil {
		return 0, fmt.Errorf("waiting for the evaluation to end before version %d: %w", min, err)
	}
	defer f.loading.Unlock()
	if f.holds > 0 {
		return now.Number, nil
	}
	return f.take(ctx, min)
}

// has returns the version in use, nil before the first, and whether it is ≥ min.
func (f *Follower) has(min int64) (now *Version, ok bool) {
	now = f.inUse.Load()
	return now, now != nil && now.Number >= min
}

// Held implements the explorer's side of a Synchronizer.
func (f *Follower) Held(_ context.Context, do func(version int64) error) error {
	f.loading.Lock()
	f.holds++
	version := int64(0)
	if now := f.inUse.Load(); now != nil {
		version = now.Number
	}
	f.loading.Unlock()
	defer func() {
		f.loading.Lock()
		f.holds--
		f.release.Signal()
		f.loading.Unlock()
	}()
	return do(version)
}

// ExplorerDone implements the explorer's side of a Synchronizer. The trainer waits for nobody.
func (f *Follower) ExplorerDone() {}

// Close removes the files of versions. Neither Wait nor Follow runs any more.
func (f *Follower) Close() {
	_ = os.RemoveAll(f.Dir) // it only takes up space
}

// published waits for a version ≥ min.
func (f *Follower) published(ctx context.Context, min int64) error {
	return f.Trainer.Try(ctx, fmt.Sprintf("publish version %d", min), func(ctx context.Context, from Getter) error {
		_, err := f.ask(ctx, from, min, "")
		return err
	})
}

// Ended waits until the trainer has ended.
func (f *Follower) Ended(ctx context.Context) error {
	err := f.published(ctx, math.MaxInt64) // which no trainer does
	if errors.Is(err, trinity.ErrEnded) {
		return nil
	}
	return err
}

// Follow loads every version as soon as it is published, also during a step. It returns nil when
// ctx is cancelled or the trainer has ended.
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

// next waits for weights other than those in use, and loads them.
func (f *Follower) next(ctx context.Context) error {
	digest := ""
	if now := f.inUse.Load(); now != nil {
		digest = now.Digest
	}
	err := f.Trainer.Try(ctx, "publish another version", func(ctx context.Context, from Getter) error {
		_, err := f.ask(ctx, from, 0, digest)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.release.Await(ctx, &f.loading, func() bool { return f.holds == 0 }); err != nil {
		return err
	}
	defer f.loading.Unlock()
	_, err = f.take(ctx, 0)
	return err
}

// take loads the version that the trainer names for min, unless it is in use. f.loading is held.
func (f *Follower) take(ctx context.Context, min int64) (int64, error) {
	now := f.inUse.Load()
	var found manifest
	var begin time.Time
	isInUse := func() bool { return now != nil && *now == found.Version }
	err := f.Trainer.Try(ctx, fmt.Sprintf("publish version %d", min), func(ctx context.Context, from Getter) (err error) {
		if found, err = f.ask(ctx, from, min, ""); err != nil || isInUse() {
			return err
		}
		begin = time.Now()
		return f.fetchAll(ctx, from, found)
	})
	if err != nil || isInUse() {
		return found.Number, err
	}
	fetched, stays := time.Now(), []int64{found.Number}
	if err = f.load(ctx, found.Number); err != nil || !f.Keep {
		stays = nil
	}
	if err := errors.Join(err, leave(f.Dir, stays...)); err != nil {
		return 0, fmt.Errorf("loading version %d: %w", found.Number, err)
	}
	f.inUse.Store(&found.Version)
	if err := f.report(ctx, found.Number, fetched.Sub(begin), time.Since(fetched)); err != nil {
		return 0, err
	}
	if f.Observer {
		return found.Number, nil
	}
	return found.Number, f.Trainer.Loaded(ctx, found.Version)
}

// load loads the version that has been downloaded. The trainer's scores, if there are any, prove it.
func (f *Follower) load(ctx context.Context, version int64) error {
	if f.proof != nil {
		scores, ok, err := readScores(versionDir(f.Dir, version))
		switch {
		case err != nil:
			return err
		case ok:
			f.proof.learn(version, scores)
		case !f.mute:
			f.mute = true
			f.say(fmt.Sprintf("version %d has no %s with the trainer's scores: nothing proves that the servers have loaded it "+
				"(synchronizer.verify of the trainer)", version, probeFile))
		}
	}
	return f.Load(ctx, versionDir(f.Dir, version), version)
}

// report sends the metrics of a version, which took so long to download and to load.
func (f *Follower) report(ctx context.Context, version int64, transfer, load time.Duration) error {
	if f.Report == nil {
		return nil
	}
	m := trinity.Metrics{"sync/transfer": transfer.Seconds(), "sync/load": load.Seconds()}
	if f.proof != nil {
		m.Merge("", f.proof.metrics())
		m["sync/load"] -= m[proveTime]
	}
	return f.Report(ctx, version, m)
}

// ask asks which version to load: at least min, and not the one whose digest is unlike.
func (f *Follower) ask(ctx context.Context, from Getter, min int64, unlike string) (manifest, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*pollWindow) // gives up a connection that hangs
	defer cancel()
	query := url.Values{"min": {strconv.FormatInt(min, 10)}, "unlike": {unlike}, "newest": {strconv.FormatBool(f.Observer)}}
	var found manifest
	err := from.GetJSON(ctx, "/v1/versions?"+query.Encode(), &found)
	if err == nil && found.Ended {
		err = fmt.Errorf("the trainer has ended and never publishes version %d: %w", min, trinity.ErrEnded)
	}
	return found, err
}

// fetchAll downloads the files of a version and checks that they are what the trainer published.
func (f *Follower) fetchAll(ctx context.Context, from Getter, found manifest) error {
	if err := os.RemoveAll(versionDir(f.Dir, found.Number)); err != nil {
		return err
	}
	for _, file := range found.Files {
		if !filepath.IsLocal(filepath.FromSlash(file.Name)) {
			return fmt.Errorf("the trainer names a file %q outside of the directory of version %d", file.Name, found.Number)
		}
		if err := f.fetch(ctx, from, found.Number, file); err != nil {
			return err
		}
	}
	return nil
}

// fetch downloads one file.
func (f *Follower) fetch(ctx context.Context, from Getter, version int64, file files.File) (err error) {
	path := filepath.Join(versionDir(f.Dir, version), filepath.FromSlash(file.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	body, err := from.Get(ctx, fmt.Sprintf("/v1/versions/%d/%s", version, (&url.URL{Path: file.Name}).EscapedPath()))
	if err != nil {
		return err
	}
	defer body.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	sum := sha256.New()
	_, err = io.Copy(out, io.TeeReader(body, sum))
	if failed := failFetched.Hit(path); failed != nil {
		return errors.Join(failed, out.Close())
	}
	if closed := out.Close(); closed != nil {
		return closed
	}
	if err == nil && hex.EncodeToString(sum.Sum(nil)) != file.SHA256 {
		err = fmt.Errorf("file %s of version %d arrived damaged: its sha256 is not the published one", file.Name, version)
	}
	if err != nil {
		return retry.Temporary(err)
	}
	return nil
}
