package weights

import "context"

// Synchronizer brings the trainer's weights to the sampler under one rule: a step starts once the
// version that it needs is in use, and the sampler keeps that version until the step has ended.
// The exception is a sampler that loads each version as soon as it can.
type Synchronizer interface {
	// Publish makes the engine's current weights available as version. If each step has its own
	// version, Publish waits until the explorer has ended the steps that need an older one. The
	// error of a wait that took too long names the explorer.
	Publish(ctx context.Context, version int64) error
	// Wait returns once a version ≥ min is in use, and returns that version. With newest it loads
	// the newest version that is available by then. The caller runs no rollout while it waits.
	Wait(ctx context.Context, min int64, newest bool) (int64, error)
	// Held calls do with the version in use, which stays in use until do has returned: an evaluation
	// measures one version. Publish does not wait for it, and a Wait for a newer version does.
	Held(ctx context.Context, do func(version int64) error) error
	// ExplorerDone says that nobody samples any more: Publish no longer waits.
	ExplorerDone()
	// TrainerDone says that the trainer publishes nothing more: Wait for a newer version returns
	// trinity.ErrEnded.
	TrainerDone()
}

// Loader is a sampler that can replace its weights by those in a directory: a model of the same
// architecture, or an adapter.
type Loader interface {
	LoadWeights(ctx context.Context, dir string, version int64) error
}

// Resident is a Loader whose weights stay where they are when the run ends, such as in a server. When
// the next run begins they may be any, so it loads version 0 as well. A server that restarts loses them:
// the directory of a version stays until LoadWeights has returned for the next one.
type Resident interface {
	Loader
	Resident()
}

// Sleeper is a Loader that may share GPUs with the engine that trains. It has them while it is awake, as
// it is when it has been opened, and the engine has them while it sleeps. One with GPUs of its own, or with
// none, does nothing.
type Sleeper interface {
	Loader
	// Sleep waits for the calls of Sample that have begun and gives the memory of the GPUs back. Later calls
	// wait.
	Sleep(ctx context.Context) error
	// Wake takes the memory again. LoadWeights does so as well.
	Wake(ctx context.Context) error
}
