package explorer

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// patience is how long a workflow may take to return once its context has ended.
const patience = 10 * time.Second

// bounded calls a workflow under the deadline of an attempt. It abandons a workflow that does not
// return after its context has ended: the rollout fails, and bounded drops whatever the workflow
// returns later. A panic fails the rollout too, not the run.
func bounded[T any](ctx context.Context, timeout time.Duration, name func() string, call func(context.Context) (T, error)) (T, error) {
	ctx, free := withDeadline(ctx, timeout, name)
	defer free()
	type result struct {
		of  T
		err error
	}
	ended := make(chan result, 1)
	go func() {
		var r result
		defer func() { ended <- r }()
		defer func() {
			if p := recover(); p != nil {
				r.err = fmt.Errorf("workflow panicked: %v\n%s", p, debug.Stack())
			}
		}()
		r.of, r.err = call(ctx)
	}()
	select {
	case r := <-ended:
		return r.of, r.err
	case <-ctx.Done():
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case r := <-ended:
		return r.of, r.err
	case <-late.C:
		var none T
		return none, fmt.Errorf("%w, and %v later the workflow had not returned: it ignores its context", context.Cause(ctx), patience)
	}
}
