package trinity

import "errors"

// ErrEnded says that the other side of a buffer or of the weights has ended, so that a wait for it
// ends. It is a normal end.
var ErrEnded = errors.New("the other side has ended")

// ErrUnknownAdapter says that a sampler holds no adapter of a name.
var ErrUnknownAdapter = errors.New("no adapter is called")

// EngineError is a failure of the engine itself, not of a rollout. It ends the run.
type EngineError struct{ Err error }

func (e *EngineError) Error() string { return "engine: " + e.Err.Error() }
func (e *EngineError) Unwrap() error { return e.Err }
