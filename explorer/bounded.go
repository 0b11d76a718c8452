package explorer

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// patience is what a workflow has to return once its context has ended.
const patience = 10 * time.Second

// bounded calls a workflow under the deadline of an attempt. One that does not return when its context has ended is left behind: its rollout has failed, and
// whatever it returns later is nobody's. A panic is its failure too, not the run's.
func bounded[T any](ctx context.Context, timeout time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("explorer.max_timeout of %v passed", timeout))
	defer cancel()
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
		return none, fmt.Errorf("%w, and %v later the workflow had not returned: it does not heed its context", context.Cause(ctx), patience)
	}
}
