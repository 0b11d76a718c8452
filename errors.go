package trinity

import "errors"

// ErrEnded says that the other side of a buffer or synchronizer has ended, so that what was waited for never comes. It is a normal end.
var ErrEnded = errors.New("the other side has ended")

// ErrUnknownAdapter says that a sampler holds no adapter of the name that was asked for.
var ErrUnknownAdapter = errors.New("no adapter is called")

// EngineError says that the model itself failed, as opposed to a rollout: it ends the run.
type EngineError struct{ Err error }

func (e *EngineError) Error() string { return "engine: " + e.Err.Error() }
func (e *EngineError) Unwrap() error { return e.Err }
