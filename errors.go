package trinity

// EngineError says that the model itself failed, as opposed to a rollout: it ends the run.
type EngineError struct{ Err error }

func (e *EngineError) Error() string { return "engine: " + e.Err.Error() }
func (e *EngineError) Unwrap() error { return e.Err }
