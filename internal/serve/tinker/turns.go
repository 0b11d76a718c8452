package tinker

import "context"

// Turns gives keys their turns at what the service runs besides, one at a time, such as jobs. Its tokens are in the account
// of the service.
type Turns struct {
	queue  *queue
	limits func(key string) Key
}

// Disk returns how many bytes a key may have on the disk; 0 is no limit.
func (t Turns) Disk(key string) int64 { return t.limits(key).Disk }

// Turn is a turn that a key has.
type Turn struct{ turn *turn }

// jobPart is the part of a key that jobs are.
const jobPart = "jobs"

// Enter waits for the turn of a key: of those that have tokens left of their hour, the one that has had the fewest tokens.
func (t Turns) Enter(ctx context.Context, key string) (*Turn, error) {
	given, err := t.queue.enter(ctx, key, jobPart, 1)
	if err != nil {
		return nil, err
	}
	return &Turn{given}, nil
}

// Compute charges the key for tokens that it has trained and sampled.
func (t *Turn) Compute(trained, sampled int) {
	t.turn.compute(trainedTokens, trained)
	t.turn.compute(sampledTokens, sampled)
}

// Over returns why a turn is over: the key has used its tokens of an hour or, if isLong says that the turn is a long one,
// another key waits that has had fewer tokens. It returns "" if the turn goes on.
func (t *Turn) Over(isLong bool) string {
	q, key := t.turn.q, t.turn.keyName
	if wait, why := q.account.pause(key); wait > 0 {
		return why
	}
	q.account.mu.Lock()
	defer q.account.mu.Unlock()
	for _, l := range q.lanes {
		if isLong && l.keyName != key && l.key.had < t.turn.key.had && q.account.paused(l.keyName) == 0 {
			return "it is the turn of another key"
		}
	}
	return ""
}

// Leave ends the turn.
func (t *Turn) Leave() { t.turn.leave() }
