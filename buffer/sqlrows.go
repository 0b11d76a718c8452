package buffer

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/database"
	"github.com/trinity-go/trinity/experience"
)

const sqlColumns = "buffer, number, rollout, explorer, delivery, needs, step, task, run, turn, version, reward, tokens, prompt, response, experience"

// sqlRow is what an experience is written as, and read from.
type sqlRow struct {
	prompt, response string
	blob             []byte // all else, and text that the columns cannot have exactly
}

// sqlDelivery is a delivery as rows.
type sqlDelivery struct {
	exps     []*trinity.Experience
	rows     []sqlRow
	rollouts int
	data     []byte // of all blobs
}

// encode makes the rows of a delivery, in the memory of the one before.
func (s *sqlDelivery) encode(d trinity.Delivery) error {
	s.exps, s.rows, s.data = slices.Concat(d.Groups...), s.rows[:0], s.data[:0]
	s.rollouts = rollouts(s.exps)
	for _, e := range s.exps {
		row, rest := sqlRow{prompt: database.Text(e.Prompt), response: database.Text(e.Response)}, *e
		if row.prompt == e.Prompt {
			rest.Prompt = ""
		}
		if row.response == e.Response {
			rest.Response = ""
		}
		begin := len(s.data)
		var err error
		if s.data, err = experience.Append(s.data, &rest); err != nil {
			return fmt.Errorf("experience %s: %w", e.ID, err)
		}
		row.blob = s.data[begin:] // in the memory that it was written to, should data be moved later
		s.rows = append(s.rows, row)
	}
	return nil
}

// forget keeps the memory of the blobs alone.
func (s *sqlDelivery) forget() {
	clear(s.rows)
	s.exps = nil
}

// insert adds the rows of an explorer's delivery behind the numbers of what was put last.
func (s *sqlDelivery) insert(ctx context.Context, t database.Tx, buffer, explorer string, delivery, needs, number, rollout int64) error {
	rows := make([][]any, len(s.exps))
	for i, e := range s.exps {
		number++
		if i == 0 || begins(s.exps[i-1].ID, e.ID) {
			rollout++
		}
		rows[i] = []any{buffer, number, rollout, explorer, delivery, needs, e.ID.Step, database.Text(e.ID.Task), e.ID.Run, e.ID.Turn, e.Versions[1],
			database.Number(e.Reward.Value, e.Reward.Valid), len(e.Tokens), s.rows[i].prompt, s.rows[i].response, s.rows[i].blob}
	}
	return t.InsertAll(ctx, "trinity_experiences", sqlColumns, rows)
}

func (b *sqlServer) entries(ctx context.Context, after int64, limit int) (entries []sharedEntry, err error) {
	begin := func() { entries = entries[:0] }
	err = b.db.Each(ctx, "SELECT number, rollout, needs, prompt, response, experience FROM trinity_experiences WHERE buffer = ? AND number > ? ORDER BY number LIMIT ?",
		[]any{b.name, after, limit}, begin, func(r *sql.Rows) error {
			var e sharedEntry
			var row sqlRow
			err := r.Scan(&e.number, &e.rollout, &e.needs, &row.prompt, &row.response, (*sql.RawBytes)(&row.blob))
			if err != nil {
				return err
			}
			if e.experience, err = row.decode(); err != nil {
				return fmt.Errorf("experience %d of buffer %s: %w", e.number, b.name, err)
			}
			entries = append(entries, e)
			return nil
		})
	return entries, err
}

func (r sqlRow) decode() (*trinity.Experience, error) {
	e, err := experience.Decode(r.blob)
	if err != nil {
		return nil, err
	}
	e.Prompt, e.Response = cmp.Or(e.Prompt, r.prompt), cmp.Or(e.Response, r.response)
	return e, nil
}
