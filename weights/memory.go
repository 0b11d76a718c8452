package weights

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/wait"
)

var (
	failOffer = failpoint.New("synchronizer.offer")
	failAdopt = failpoint.New("synchronizer.adopt")
)

// Handover says when the sampler begins to use a published version.
type Handover int

const (
	// AtRendezvous hands a version over when the explorer waits for it and has ended the steps that
	// need an older one. Publish waits for that.
	AtRendezvous Handover = iota
	// WhenAsked hands a version over when the explorer asks for the newest. Publish does not wait.
	WhenAsked
	// AtOnce hands a version over when the trainer publishes it, also during a step.
	AtOnce
)

// Offerer makes versions and gives them to a sampler. An engine that shares its memory with the
// sampler (engine.Publisher) is an Offerer.
type Offerer interface {
	Offer(ctx context.Context, version int64) error
	Adopt(ctx context.Context) (version int64, err error)
}

// Memory synchronizes a trainer and an explorer of one process: an Offerer hands weights to the
// sampler.
type Memory struct {
	engine   Offerer
	handover Handover
	timeout  time.Duration
	sleeper  Sleeper // the sampler, if it may share GPUs with the trainer; else nil

	mu                        sync.Mutex
	version                   int64 // that the sampler uses
	offered                   int64 // that the trainer published last
	wanted                    int64 // that the explorer waits for; 0 if it does not wait
	holds                     int   // calls of Held that have not returned
	explorerDone, trainerDone bool
	point                     wait.Point
}

// NewMemory returns a Memory whose sampler already uses version. A wait longer than timeout is an
// error.
func NewMemory(engine Offerer, version int64, h Handover, timeout time.Duration) *Memory {
	return &Memory{engine: engine, handover: h, timeout: timeout, version: version, offered: version}
}

// Publish implements Synchronizer.
func (m *Memory) Publish(ctx context.Context, version int64) error {
	if err := m.rendezvous(ctx, version); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := errors.Join(failOffer.Hit(""), m.engine.Offer(ctx, version)); err != nil {
		return fmt.Errorf("publishing version %d: %w", version, err)
	}
	m.offered = version
	if m.handover != WhenAsked && m.holds == 0 {
		if err := m.adopt(ctx); err != nil {
			return err
		}
	}
	m.point.Signal()
	return nil
}

// rendezvous waits until a version may be offered, and returns with the lock held. A sampler that shares
// its GPUs with the trainer has them while the trainer waits.
func (m *Memory) rendezvous(ctx context.Context, version int64) error {
	ready := func() bool { return m.handover != AtRendezvous || m.explorerDone || m.wanted > m.version }
	m.mu.Lock()
	waits := !ready()
	m.mu.Unlock()
	if waits && m.sleeper != nil {
		if err := m.sleeper.Wake(ctx); err != nil {
			return err
		}
	}
	err := m.await(ctx, fmt.Sprintf("the explorer to end its steps before version %d", version), ready)
	if err != nil || m.sleeper == nil {
		return err
	}
	if err := m.sleeper.Sleep(ctx); err != nil {
		m.mu.Unlock()
		return err
	}
	return nil
}

// sharer is an engine whose sampler may read the very weights that the engine trains.
type sharer interface{ SharesWeights() bool }

// Claim waits until no rollout and no evaluation samples with the version in use, if the sampler reads the very weights that are
// trained. The trainer calls Claim before it changes them. The explorer then waits for the next version, so Publish would wait as long.
func (m *Memory) Claim(ctx context.Context) error {
	if e, ok := m.engine.(sharer); !ok || !e.SharesWeights() {
		return nil
	}
	err := m.await(ctx, "the explorer to end its steps before the weights change", func() bool {
		return m.holds == 0 && (m.explorerDone || m.wanted > m.version)
	})
	if err != nil {
		return err
	}
	m.mu.Unlock()
	return nil
}

// adopt brings the version that the trainer published last into use. The lock is held.
func (m *Memory) adopt(ctx context.Context) error {
	version, err := m.engine.Adopt(ctx)
	if err = errors.Join(err, failAdopt.Hit("")); err != nil {
		return fmt.Errorf("bringing version %d into use: %w", m.offered, err)
	}
	m.version = version
	return nil
}

// Wait implements Synchronizer.
func (m *Memory) Wait(ctx context.Context, min int64, newest bool) (int64, error) {
	m.mu.Lock()
	if min > m.version {
		m.wanted = min
		m.point.Signal()
	}
	m.mu.Unlock()
	err := m.await(ctx, fmt.Sprintf("the trainer to publish version %d", min), func() bool { return m.offered >= min || m.trainerDone })
	if err != nil {
		return 0, err
	}
	never := m.offered < min
	m.mu.Unlock()
	if never {
		return 0, fmt.Errorf("version %d is never published: %w", min, trinity.ErrEnded)
	}
	err = m.await(ctx, fmt.Sprintf("the evaluation to end before version %d", min), func() bool { return m.holds == 0 || m.version >= min })
	if err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	m.wanted = 0
	if m.holds == 0 && m.offered > m.version && (newest || m.version < min) {
		if err := m.adopt(ctx); err != nil {
			return 0, err
		}
	}
	return m.version, nil
}

// Held implements Synchronizer.
func (m *Memory) Held(ctx context.Context, do func(version int64) error) error {
	m.mu.Lock()
	m.holds++
	version := m.version
	m.mu.Unlock()
	err := do(version)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holds--
	m.point.Signal()
	if err != nil || m.holds > 0 || m.handover != AtOnce || m.offered == m.version {
		return err
	}
	return m.adopt(ctx)
}

// ExplorerDone implements Synchronizer.
func (m *Memory) ExplorerDone() { m.end(&m.explorerDone) }

// TrainerDone implements Synchronizer.
func (m *Memory) TrainerDone() { m.end(&m.trainerDone) }

func (m *Memory) end(side *bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*side = true
	m.point.Signal()
	if f, ok := m.engine.(*byDirectory); ok && m.explorerDone && m.trainerDone {
		_ = os.RemoveAll(f.dir) // it only takes up space
	}
}

// await blocks until ready returns true, and returns with the lock held. After an error the lock is
// not held.
func (m *Memory) await(ctx context.Context, what string, ready func() bool) error {
	ctx, cancel := limited(ctx, m.timeout)
	defer cancel()
	if err := m.point.Await(ctx, &m.mu, ready); err != nil {
		return fmt.Errorf("waiting for %s: %w", what, err)
	}
	return nil
}

// limited returns a context that ends after timeout. Its cause names the key.
func limited(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, timeout, fmt.Errorf("synchronizer.sync_timeout of %v passed", timeout))
}
