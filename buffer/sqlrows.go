package buffer

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/experience"
)

const sqlColumns = "buffer, number, rollout, explorer, delivery, needs, step, task, run, turn, version, reward, tokens, " +
	"prompt, response, experience"

// sqlRow holds the text columns of an experience, and the rest of it.
type sqlRow struct {
	prompt, response string
	blob             []byte // the rest, and text that the columns cannot hold exactly
}

// sqlRows are the rows of a delivery.
type sqlRows struct {
	exps []*trinity.Experience
	rows []sqlRow
	data []byte // all blobs
}

// encode sets the rows of a delivery. It reuses the memory of the last.
func (s *sqlRows) encode(r Record) error {
	s.exps, s.rows, s.data = slices.Concat(r.Groups...), s.rows[:0], s.data[:0]
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
		row.blob = s.data[begin:] // stays valid if append moves data later
		s.rows = append(s.rows, row)
	}
	return nil
}

// forget releases everything but the memory for blobs.
func (s *sqlRows) forget() {
	clear(s.rows)
	s.exps = nil
}

// insert adds the rows of a delivery. Their numbers follow those of the log.
func (s *sqlRows) insert(ctx context.Context, t database.Tx, l *sqlLog, h Head) error {
	rows := make([][]any, len(s.exps))
	number, rollout := l.experiences, l.rollouts
	for i, e := range s.exps {
		number++
		if i == 0 || !e.ID.Follows(s.exps[i-1].ID) {
			rollout++
		}
		rows[i] = []any{
			l.name, number, rollout, h.Explorer, h.Delivery, h.Needs, e.ID.Step, database.Text(e.ID.Task), e.ID.Run, e.ID.Turn, e.Versions[1],
			database.Number(e.Reward.Value, e.Reward.Valid), len(e.Tokens), s.rows[i].prompt, s.rows[i].response, s.rows[i].blob,
		}
	}
	return t.InsertAll(ctx, "trinity_experiences", sqlColumns, rows)
}

func (r sqlRow) decode() (*trinity.Experience, error) {
	e, err := experience.Decode(r.blob)
	if err != nil {
		return nil, err
	}
	e.Prompt, e.Response = cmp.Or(e.Prompt, r.prompt), cmp.Or(e.Response, r.response)
	return e, nil
}
