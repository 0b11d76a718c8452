package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"github.com/trinity-go/trinity/internal/bridge"
)

// errInterrupted is the cause of contexts that Ctrl-C has cancelled.
var errInterrupted = errors.New("interrupted")

// interruptedCode is the exit code after Ctrl-C.
const interruptedCode = 130

// onInterrupt is the function that the next signal calls. If it is nil, the signal ends the
// process.
var onInterrupt atomic.Pointer[func()]

// watchSignals handles SIGINT, SIGTERM and SIGHUP until the returned function is called. A closing terminal
// sends SIGHUP, often twice, so a second one is no second Ctrl-C. Under nohup it stays ignored. A Python process that has
// started this one closes its standard input instead, also by its death.
func watchSignals() (stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(signals, syscall.SIGHUP)
	}
	if bridge.HasCaller() {
		signal.Ignore(syscall.SIGPIPE) // its death must not end this one before a checkpoint
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			signals <- os.Interrupt
		}()
	}
	ended, isEnding := make(chan struct{}), false
	go func() {
		for {
			select {
			case <-ended:
				return
			case got := <-signals:
				if got == syscall.SIGHUP && isEnding {
					continue
				}
			}
			act := onInterrupt.Swap(nil)
			if act == nil {
				os.Exit(interruptedCode)
			}
			isEnding = true
			(*act)()
		}
	}()
	return func() { signal.Stop(signals); close(ended) }
}

// interruptible returns a context that the first signal cancels with errInterrupted. The second
// signal ends the process at once.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	act := func() { cancel(errInterrupted) }
	onInterrupt.Store(&act)
	return ctx, func() { onInterrupt.CompareAndSwap(&act, nil); cancel(nil) }
}

// orInterrupted returns errInterrupted if a signal caused err, and err otherwise.
func orInterrupted(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errInterrupted) {
		return errInterrupted
	}
	return err
}
