package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/failpoint"
	"github.com/trinity-go/trinity/internal/serve/openai"
)

var (
	failDeliver   = failpoint.New("traffic.deliver")   // before the trainer gets a delivery
	failDelivered = failpoint.New("traffic.delivered") // after the trainer has it
)

// cursor is what the trainer keeps of the newest delivery.
type cursor struct {
	Delivery string `json:"delivery"`
	Step     int64  `json:"step"`
}

// Deliver sends rollouts to the trainer until ctx ends. It returns nil if the trainer has ended.
func (t *Traffic) Deliver(ctx context.Context) (err error) {
	if t.ended() {
		return nil
	}
	if out := t.outgoing(); out != nil {
		err = t.deliver(ctx, out)
	}
	for err == nil {
		var next *entry
		var wait time.Duration
		if next, wait, err = t.take(time.Now()); err != nil {
			break
		}
		if next != nil {
			err = t.deliver(ctx, next)
			continue
		}
		t.dropIdle(time.Now())
		select {
		case <-t.changed:
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return t.noteEnd(err)
}

// End refuses new rollouts because the trainer has ended.
func (t *Traffic) End() { _ = t.noteEnd(trinity.ErrEnded) }

// noteEnd refuses new rollouts if err says that the trainer has ended; it returns any other error.
func (t *Traffic) noteEnd(err error) error {
	if !errors.Is(err, trinity.ErrEnded) {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed != nil {
		return nil
	}
	t.Say("the trainer has ended, so the server records no traffic any more")
	t.closed = &openai.Problem{
		Status: http.StatusConflict, Code: "training_ended", Message: "the trainer has ended, so nothing is recorded any more", Final: true,
	}
	return nil
}

// Resume joins the trainer and finds out what it has of the delivery during which an earlier process
// ended. It returns the number of deliveries that the trainer has.
func (t *Traffic) Resume(ctx context.Context) (step int64, err error) {
	_, state, err := t.Sink.Resume(ctx)
	if err != nil {
		return 0, t.noteEnd(err)
	}
	var at cursor
	if len(state) > 0 {
		if err := json.Unmarshal(state, &at); err != nil || at.Delivery == "" {
			return 0, errors.New("the trainer knows an explorer by this name that makes rollouts of its own: " +
				"set explorer.name to another name for the traffic")
		}
	}
	lost := t.lost(at)
	if out := t.outgoing(); out != nil {
		if out.Delivery == at.Delivery || lost { // the trainer has a later one
			if err := t.delivered(out); err != nil {
				return 0, err
			}
		} else {
			return out.Step - 1, nil
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.journal.step = max(t.journal.step, at.Step)
	return t.journal.step, nil
}

// lost reports whether the journal lacks deliveries that the trainer has, and says so: a delivery is in
// the journal before the trainer gets it. A journal that was trimmed may have forgotten all deliveries.
func (t *Traffic) lost(c cursor) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := t.journal
	if c.Step <= j.step || j.step == 0 && j.log.First() > 0 {
		return false
	}
	what := "was cut"
	if j.step == 0 {
		what = "is gone"
	}
	t.Say(fmt.Sprintf("the journal of real traffic in %s %s: the trainer has delivery %d, and the journal knows %d. Rollouts that the "+
		"journal lacks are lost, and their keys are refused; those of a delivery that it lacks may be trained on again",
		j.log.Dir(), what, c.Step, j.step))
	return true
}

// outgoing returns the delivery that the trainer may not have yet; nil if there is none.
func (t *Traffic) outgoing() *entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.journal.out
}

func (t *Traffic) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed != nil
}

// deliver gives groups to the trainer.
func (t *Traffic) deliver(ctx context.Context, out *entry) error {
	groups, err := t.groups(out)
	if err != nil {
		return err
	}
	t.mu.Lock()
	metrics := trinity.Metrics{"pending_count": float64(len(t.journal.rollouts))}
	metrics.Merge("", t.journal.counts)
	t.mu.Unlock()
	if groups, err = t.Process(ctx, out.Step, groups, metrics); err != nil {
		return err
	}
	state, err := json.Marshal(cursor{out.Delivery, out.Step})
	if err != nil {
		return err
	}
	if err := failDeliver.Hit(""); err != nil {
		return err
	}
	if err := t.Sink.Put(ctx, trinity.Delivery{Groups: groups, Cursor: state}); err != nil {
		return err
	}
	if err := failDelivered.Hit(""); err != nil {
		return err
	}
	return t.delivered(out)
}

// delivered notes that the trainer has a delivery.
func (t *Traffic) delivered(out *entry) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.journal.append(&entry{Kind: entryDelivered, Time: time.Now(), Delivery: out.Delivery, Groups: out.Groups}); err != nil {
		return err
	}
	return t.journal.trim()
}

// groups returns the experiences of a delivery.
func (t *Traffic) groups(out *entry) (groups []trinity.Group, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, ids := range out.Groups {
		var group trinity.Group
		for run, id := range ids {
			p := t.journal.rollouts[id]
			exps, err := t.journal.experiences(p)
			if err != nil {
				return nil, err
			}
			name := p.group
			if name == "" {
				name = id[:16]
			}
			for turn, e := range exps {
				e.ID = trinity.ExperienceID{Step: out.Step, Task: t.Task + name, Run: run, Turn: turn}
			}
			group = append(group, exps...)
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// take returns the next delivery, nil if too few groups are complete; wait is when to ask again. It
// ends the rollouts that have failed or expired.
func (t *Traffic) take(now time.Time) (out *entry, wait time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.sweep(now); err != nil {
		return nil, 0, err
	}
	wait = idle
	var names []string // of groups, the oldest first
	groups := map[string][]*pending{}
	for _, p := range t.journal.sorted() {
		left := p.touched.Add(t.Expiry).Sub(now)
		if p.committed {
			name := p.group
			if name == "" {
				name = "\x00" + p.id
			}
			if groups[name] == nil {
				names = append(names, name)
			}
			groups[name] = append(groups[name], p)
		}
		if left > 0 {
			wait = min(wait, left)
		}
	}
	var ready [][]string
	for _, name := range names {
		if group := groups[name]; t.isComplete(group, now) && len(ready) < t.Batch {
			var ids []string
			for _, p := range group[:min(len(group), max(1, t.Group))] {
				ids = append(ids, p.id)
			}
			ready = append(ready, ids)
		}
	}
	if len(ready) < t.Batch {
		return nil, wait, nil
	}
	out = &entry{Kind: entryDelivery, Time: now, Delivery: rand.Text(), Step: t.journal.step + 1, Groups: ready}
	return out, 0, t.journal.append(out)
}

// isComplete reports whether a group waits for no further rollout: it has all of them, or its
// newest one has waited long enough.
func (t *Traffic) isComplete(group []*pending, now time.Time) bool {
	return group[0].group == "" || len(group) >= t.Group || len(group) > 1 && t.hasExpired(group[len(group)-1], now)
}

func (t *Traffic) hasExpired(p *pending, now time.Time) bool { return now.Sub(p.touched) >= t.Expiry }

// sweep ends the rollouts that have failed or expired. The lock must be held.
func (t *Traffic) sweep(now time.Time) error {
	committed := map[string]int{} // by group
	for _, p := range t.journal.rollouts {
		if p.committed && p.failed == "" {
			committed[p.group]++
		}
	}
	var over []string
	counts := trinity.Metrics{}
	for _, p := range t.journal.sorted() {
		switch {
		case p.failed != "" && (p.committed || t.hasExpired(p, now)):
			over = append(over, p.id)
			counts["failed_"+string(p.failed)+"_count"]++
		case p.committed && !p.hasReply():
			over = append(over, p.id)
			counts["untrained_count"]++
		case !p.committed && t.hasExpired(p, now),
			p.group != "" && t.Group > 1 && committed[p.group] == 1 && t.hasExpired(p, now):
			over = append(over, p.id)
			counts["expired_count"]++
		}
	}
	if len(over) == 0 {
		return nil
	}
	t.Say(fmt.Sprintf("%d rollouts of real traffic ended without training: %v", len(over), counts))
	if err := t.journal.append(&entry{Kind: entryEnd, Time: now, Groups: [][]string{over}, Counts: counts}); err != nil {
		return err
	}
	return t.journal.trim()
}

// hasReply reports whether the client got a reply.
func (p *pending) hasReply() bool {
	for _, k := range p.replies {
		if !k.lost {
			return true
		}
	}
	return false
}
