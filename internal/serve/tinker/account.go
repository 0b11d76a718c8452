package tinker

import (
	"fmt"
	"sync"
	"time"
)

// account divides what the service computes by tokens: over keys, and over what a key has, such as its models. Training and
// sampling share it: what a key has at one queue counts at all.
type account struct {
	mu      sync.Mutex
	now     func() time.Time
	after   func(time.Duration, func())
	perHour func(key string) int64 // tokens; 0 bounds nothing
	queues  []*queue
	budgets map[string]*budget
	turns   int64 // that were asked for and given
	used    map[string]map[work]int64
}

func newAccount(perHour func(key string) int64) *account {
	after := func(d time.Duration, do func()) { time.AfterFunc(d, do) }
	return &account{now: time.Now, after: after, perHour: perHour, budgets: map[string]*budget{}, used: map[string]map[work]int64{}}
}

// budget is how many tokens a key may still use in this hour. It fills steadily.
type budget struct {
	left float64
	at   time.Time
}

// paused returns how long a key that has used its tokens must wait. The mutex is held.
func (a *account) paused(key string) time.Duration {
	limit := float64(a.perHour(key))
	if limit <= 0 {
		return 0
	}
	now := a.now()
	b := a.budgets[key]
	if b == nil {
		b = &budget{limit, now}
		a.budgets[key] = b
	}
	b.left = min(limit, b.left+limit*now.Sub(b.at).Hours())
	b.at = now
	if b.left > 0 {
		return 0
	}
	return time.Duration((1 - b.left) / limit * float64(time.Hour))
}

// pause returns how long a key that has used its tokens must wait, and says so.
func (a *account) pause(key string) (wait time.Duration, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if wait = a.paused(key); wait > 0 {
		why = fmt.Sprintf("the key %s has used its %d tokens of an hour: more in %v", key, a.perHour(key), wait.Round(time.Second)+time.Second)
	}
	return wait, why
}
