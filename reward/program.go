package reward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/internal/wire/score"
)

// program is the running copies of a program that scores.
type program struct {
	args *execReward
	*process.Pool
	say      func(string)
	patience time.Duration // wait for an answer that people read of
	told     sync.Once     // guards the line about such a wait

	mu    sync.Mutex
	lost  int // processes since the last answer
	total int // processes that were lost
}

func newProgram(x *execReward, log io.Writer, say func(string)) *program {
	of := x.Program()
	of.Stderr = log
	pool := process.NewPool(of, x.Workers, process.Lines{Most: score.MaxAnswer})
	return &program{args: x, Pool: pool, say: say, patience: 10 * time.Second}
}

// ask returns the program's answer to a question. It asks once more if a process ends instead of
// answering.
func (p *program) ask(ctx context.Context, question []byte) (r trinity.Reward, err error) {
	w, err := p.Take(ctx)
	if err != nil {
		return r, err
	}
	defer w.GiveBack()
	for range 2 {
		if err = p.gaveUp(); err != nil {
			return r, err
		}
		var text []byte
		if text, err = p.exchange(ctx, w, question); err == nil {
			var failed error
			if r, failed, err = score.Decode(text); err == nil {
				p.answered()
				return r, failed
			}
			err = w.Stop(err)
		}
		if errors.Is(err, process.ErrClosed) || ctx.Err() != nil {
			return r, err
		}
		p.lose(err)
		if !errors.Is(err, process.ErrEnded) {
			return r, err
		}
	}
	return r, err
}

// exchange asks a worker within the time that an answer may take.
func (p *program) exchange(ctx context.Context, w *process.Worker, question []byte) ([]byte, error) {
	key, limit := "timeout", p.args.Timeout
	if !w.Runs() {
		key, limit = "start_timeout", p.args.StartTimeout
	}
	late := fmt.Errorf("no answer within %s = %g s", key, limit)
	ctx, cancel := context.WithTimeoutCause(ctx, wait.Seconds(limit), late)
	defer cancel()
	defer time.AfterFunc(p.patience, func() {
		p.told.Do(func() {
			p.say(fmt.Sprintf("waits for reward %s: no answer for %v (%s = %g s)", p.args, p.patience, key, limit))
		})
	}).Stop()
	return w.Ask(ctx, question)
}

// gaveUp returns an error if the program was restarted too often.
func (p *program) gaveUp() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lost <= p.args.MaxRestarts {
		return nil
	}
	return fmt.Errorf("%d times in a row it did not answer (max_restarts = %d), so the run does not start it again; plugins.log has its "+
		"standard error", p.lost, p.args.MaxRestarts)
}

// lose counts a process that did not answer because of an error. It reports the first, the tenth,
// the hundredth and so on.
func (p *program) lose(err error) {
	p.mu.Lock()
	p.lost++
	p.total++
	total := p.total
	p.mu.Unlock()
	switch {
	case total == 1:
		p.say(fmt.Sprintf("reward %s: %v; the run starts it again", p.args, err))
	case isPowerOfTen(total):
		p.say(fmt.Sprintf("reward %s: the run has started it again %d times; the last time: %v", p.args, total, err))
	}
}

func isPowerOfTen(n int) bool {
	for n >= 10 && n%10 == 0 {
		n /= 10
	}
	return n == 1
}

// answered notes that a process has answered.
func (p *program) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lost = 0
}
