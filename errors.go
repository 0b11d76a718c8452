package trinity

import (
	"errors"
	"fmt"
)

// ErrEnded says that the other side of a buffer or of the weights has ended, so that a wait for it
// ends. It is a normal end.
var ErrEnded = errors.New("the other side has ended")

// ErrUnknownAdapter says that a sampler holds no adapter of a name.
var ErrUnknownAdapter = errors.New("no adapter is called")

// ErrNoRoom says that a dialogue has no room for another reply: its tokens fill the model's length,
// or its prompt was longer than max_prompt_tokens and is truncated. It is a normal end of a rollout.
var ErrNoRoom = errors.New("the dialogue has no room for another reply")

// ErrNoTokens is an ErrNoRoom that says that the rollout has sampled all tokens that it may.
var ErrNoTokens = fmt.Errorf("%w: it has all the tokens of explorer.max_rollout_tokens", ErrNoRoom)

// ErrRewritesHistory says that a chat template writes earlier turns otherwise once messages follow,
// so that no tokens bridge a reply and the next one.
var ErrRewritesHistory = errors.New("the chat template rewrites earlier turns")

// ErrConstraint says that a sampler cannot keep a reply to SamplingParams.Constraint: no token of the
// model continues the text, or the engine knows no constraints. Only that request fails.
var ErrConstraint = errors.New("the reply cannot be constrained as asked")

// EngineError is a failure of the engine itself, not of a rollout. It ends the run.
type EngineError struct{ Err error }

func (e *EngineError) Error() string { return "engine: " + e.Err.Error() }
func (e *EngineError) Unwrap() error { return e.Err }

// LostError is the loss of an engine's worker: a process died, or was ended because it did not answer
// in time. The same run can resume with a new worker.
type LostError struct{ Err error }

func (e *LostError) Error() string { return e.Err.Error() }
func (e *LostError) Unwrap() error { return e.Err }
