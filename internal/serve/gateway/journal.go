package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
)

// entryKind says what an entry of the journal tells.
type entryKind string

const (
	entryOpen      entryKind = "open"      // a rollout begins
	entryReplies   entryKind = "replies"   // the policy replied to a request
	entryLost      entryKind = "lost"      // the client did not get the replies of Turns
	entryReward    entryKind = "reward"    // of the rollout, or of one turn
	entryFailure   entryKind = "failure"   // the client reports that the rollout failed
	entryCommit    entryKind = "commit"    // nothing is added to the rollout any more
	entryEnd       entryKind = "end"       // the rollouts of Groups have expired or failed
	entryDelivery  entryKind = "delivery"  // the groups are about to go to the trainer
	entryDelivered entryKind = "delivered" // the trainer has them
)

// entry is a record of the journal. Rollouts are named by the hash of their key, so that the journal
// reveals no key.
type entry struct {
	Kind    entryKind `json:"kind"`
	Time    time.Time `json:"time"`
	Rollout string    `json:"rollout,omitzero"`

	Group string `json:"group,omitzero"` // of entryOpen: the client's, "" for none
	Steps bool   `json:"steps,omitzero"` // of entryOpen: each call is an experience of its own

	Request string              `json:"request,omitzero"` // of entryReplies: hash of the request
	Replies []recorded          `json:"replies,omitzero"`
	Turns   []int               `json:"turns,omitzero"`
	Reward  *trinity.Reward     `json:"reward,omitzero"`
	Failed  trinity.FailureKind `json:"failed,omitzero"`
	Reason  string              `json:"reason,omitzero"`

	Delivery string     `json:"delivery,omitzero"` // a random name
	Step     int64      `json:"step,omitzero"`     // of the delivery; 1 is the first
	Groups   [][]string `json:"groups,omitzero"`   // rollouts

	Counts trinity.Metrics `json:"counts,omitzero"` // of entryEnd: rollouts by why they ended
}

// recorded is a reply of the policy.
type recorded struct {
	Turn       int    `json:"turn"`
	Tokens     int    `json:"tokens"`               // that the policy wrote
	Experience []byte `json:"experience,omitempty"` // binary form; the prompt is all that the policy read
}

// pending is a rollout of real traffic that waits.
type pending struct {
	id, group string
	steps     bool
	first     int64     // number of its first entry
	touched   time.Time // time of its newest entry
	replies   []journalReply
	reward    *trinity.Reward
	turns     map[int]*trinity.Reward
	failed    trinity.FailureKind // "" if it has not failed
	reason    string
	committed bool
}

// journalReply is a reply in the journal.
type journalReply struct {
	recorded // without the experience
	request  string
	entry    int64 // its number
	place    int   // in entry.Replies
	lost     bool
}

// journal is the state of real traffic and the log that it follows from.
type journal struct {
	log      *durable.Log
	index    *durable.LogIndex
	rollouts map[string]*pending // by id
	ended    map[string]bool     // the newest ids that have ended
	order    []string            // of ended, the oldest first
	ends     []int64             // numbers of the newest entries that ended rollouts
	out      *entry              // a delivery that the trainer may not have yet
	step     int64               // of the newest delivery
	counts   trinity.Metrics     // rollouts that ended since then without training, by why
}

// maxEnds bounds the entries about ended rollouts that the journal keeps, to tell their keys from wrong
// ones.
const maxEnds = 1000

// openJournal reads the journal in dir, and makes it if there is none.
func openJournal(dir string) (*journal, error) {
	log, err := durable.OpenLog(dir)
	if err != nil {
		return nil, err
	}
	j := &journal{log: log, index: durable.IndexLog(dir), rollouts: map[string]*pending{}, ended: map[string]bool{}}
	j.counts = trinity.Metrics{}
	r := durable.ReadLog(dir, log.First())
	defer r.Close()
	for {
		number := r.Number()
		data, err := r.Next()
		if errors.Is(err, io.EOF) {
			return j, nil
		}
		var e entry
		if err == nil {
			err = json.Unmarshal(data, &e)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s, record %d: %w", dir, number, err), j.close())
		}
		j.apply(number, &e)
	}
}

// append writes an entry. Once it returns, a kill does not lose it.
func (j *journal) append(e *entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	number, err := j.log.Append(data)
	if err != nil {
		return err
	}
	j.apply(number, e)
	return nil
}

// apply changes the state as an entry says. Entries of rollouts that have ended have no effect.
func (j *journal) apply(number int64, e *entry) {
	if e.Kind == entryOpen {
		j.rollouts[e.Rollout] = &pending{
			id: e.Rollout, group: e.Group, steps: e.Steps, first: number, turns: map[int]*trinity.Reward{},
		}
	}
	if p := j.rollouts[e.Rollout]; p != nil {
		p.touched = e.Time
		p.apply(number, e)
	}
	switch e.Kind {
	case entryDelivery:
		j.out, j.step = e, e.Step
	case entryDelivered:
		j.out, j.counts = nil, trinity.Metrics{}
		j.end(number, e.Groups)
	case entryEnd:
		j.end(number, e.Groups)
		for name, n := range e.Counts {
			j.counts[name] += n
		}
	}
}

// apply changes a rollout as an entry says.
func (p *pending) apply(number int64, e *entry) {
	switch e.Kind {
	case entryReplies:
		for i, r := range e.Replies {
			r.Experience = nil
			p.replies = append(p.replies, journalReply{recorded: r, request: e.Request, entry: number, place: i})
		}
	case entryLost:
		for i := range p.replies {
			p.replies[i].lost = p.replies[i].lost || slices.Contains(e.Turns, p.replies[i].Turn)
		}
	case entryReward:
		if len(e.Turns) == 0 {
			p.reward = e.Reward
		}
		for _, turn := range e.Turns {
			p.turns[turn] = e.Reward
		}
	case entryFailure:
		p.failed, p.reason = e.Failed, e.Reason
	case entryCommit:
		p.committed = true
	}
}

// end removes rollouts from those that wait, as the entry with this number says.
func (j *journal) end(number int64, groups [][]string) {
	j.ends = append(j.ends, number)
	j.ends = j.ends[max(0, len(j.ends)-maxEnds):]
	for _, id := range slices.Concat(groups...) {
		delete(j.rollouts, id)
		j.ended[id] = true
		if j.order = append(j.order, id); len(j.order) > maxEnded {
			delete(j.ended, j.order[0])
			j.order = j.order[1:]
		}
	}
}

// sorted returns the rollouts that wait, the oldest first.
func (j *journal) sorted() []*pending {
	return slices.SortedFunc(maps.Values(j.rollouts), func(a, b *pending) int { return int(a.first - b.first) })
}

// trim removes what nobody needs any more. It is called after an entry that ended rollouts.
func (j *journal) trim() error {
	needed := j.ends[0]
	for _, p := range j.rollouts {
		needed = min(needed, p.first)
	}
	return j.log.Trim(needed)
}

// experiences returns what the policy wrote in a rollout, scored. It is nothing if the client got no
// reply.
func (j *journal) experiences(p *pending) ([]*trinity.Experience, error) {
	var out []*trinity.Experience
	for _, k := range p.replies {
		if k.lost {
			continue
		}
		data, err := j.index.Read(k.entry)
		if err != nil {
			return nil, err
		}
		var e entry
		if err := json.Unmarshal(data, &e); err != nil {
			return nil, fmt.Errorf("%s, record %d: %w", j.log.Dir(), k.entry, err)
		}
		x, err := experience.Decode(e.Replies[k.place].Experience)
		if err != nil {
			return nil, fmt.Errorf("%s, record %d: %w", j.log.Dir(), k.entry, err)
		}
		if x.Reward = *p.reward; p.steps {
			if own := p.turns[k.Turn]; own != nil {
				x.Reward = *own
			}
		}
		out = append(out, x)
	}
	replies := len(out)
	if !p.steps {
		out = weave(out)
	}
	measure(out, replies, len(out), p.steps)
	return out, nil
}

func (j *journal) close() error { return errors.Join(j.index.Close(), j.log.Close()) }
