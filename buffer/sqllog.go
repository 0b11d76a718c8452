package buffer

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
)

// sqlLog is a Log in tables of a database. A delivery is one transaction. The process that opened
// the log last is its writer. Every transaction checks that it still is, and that the database
// still has all records that it has acknowledged.
type sqlLog struct {
	db           *database.DB
	name, writer string

	records, experiences, rollouts int64 // ever written
	trimmed                        int64 // records before this one have no experiences
	rows                           sqlRows
}

// openSQLLog opens the log called name. It creates the log and its tables if there are none. ctx
// lasts as long as the log is used, see [database.Open].
func openSQLLog(ctx context.Context, a dburl.Address, name string, o database.Options) (*sqlLog, error) {
	if err := database.CheckName(name, "project, group, name or buffer.trainer_input.experience_buffer.name"); err != nil {
		return nil, err
	}
	db, err := database.Open(ctx, a, o)
	if err != nil {
		return nil, err
	}
	l := &sqlLog{db: db, name: name, writer: rand.Text()}
	if err = db.Migrate(ctx, "buffer", sqlSchema); err == nil {
		err = db.Update(ctx, l.claim)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return l, nil
}

// claim makes this process the writer.
func (l *sqlLog) claim(ctx context.Context, t database.Tx) (bool, error) {
	if err := t.Insert(ctx, "trinity_buffers", "name", l.name); err != nil {
		return false, err
	}
	err := t.Row(ctx, "SELECT records, experiences, rollouts, trimmed FROM trinity_buffers WHERE name = ?", []any{l.name},
		&l.records, &l.experiences, &l.rollouts, &l.trimmed)
	if err != nil {
		return false, err
	}
	_, err = t.Exec(ctx, "UPDATE trinity_buffers SET writer = ? WHERE name = ?", l.writer, l.name)
	return true, err
}

// String implements Log.
func (l *sqlLog) String() string { return fmt.Sprintf("%s, buffer %s", l.db, l.name) }

// Bounds implements Log.
func (l *sqlLog) Bounds() (first, next int64) { return l.trimmed, l.records }

// begin locks the log's row in a transaction, and checks that this process is the writer and that
// no record is missing. unsure reports whether there is one more record, whose commit had no
// answer.
func (l *sqlLog) begin(ctx context.Context, t database.Tx) (unsure bool, err error) {
	var records int64
	var writer string
	err = t.Row(ctx, "SELECT records, writer FROM trinity_buffers WHERE name = ?", []any{l.name}, &records, &writer)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, fmt.Errorf("%s is not there any more: the server lost it, or somebody removed it", l)
	case err != nil:
		return false, err
	case writer != l.writer && records >= l.records:
		return false, fmt.Errorf("%s: another process has become its trainer: a buffer has only one", l)
	case records < l.records:
		return false, fmt.Errorf("%s: it has %d deliveries, and has acknowledged %d: the server has lost the last: restart trainer and "+
			"explorers, which resume from what it has, or restore its copy", l, records, l.records)
	}
	return records > l.records, nil
}

// Append implements Log. If the commit of the last record had no answer, Append replaces that
// record: its caller got an error for it.
func (l *sqlLog) Append(ctx context.Context, r Record) (int64, error) {
	defer l.rows.forget()
	if err := l.rows.encode(r); err != nil {
		return 0, err
	}
	sizes := make([]int, len(r.Groups))
	for i, g := range r.Groups {
		sizes[i] = len(g)
	}
	list, err := json.Marshal(sizes)
	if err != nil {
		return 0, err
	}
	records, experiences, rollouts := l.records+1, l.experiences+int64(r.Experiences), l.rollouts+int64(r.Rollouts)
	err = l.db.Update(ctx, func(ctx context.Context, t database.Tx) (bool, error) {
		unsure, err := l.begin(ctx, t)
		if err == nil && unsure {
			err = l.undo(ctx, t)
		}
		if err != nil {
			return false, err
		}
		if err := l.rows.insert(ctx, t, l, r.Head); err != nil {
			return false, err
		}
		err = t.InsertAll(ctx, "trinity_deliveries", "buffer, "+headColumns,
			[][]any{{l.name, l.records, r.Explorer, r.Delivery, r.Needs, text(r.Cursor), r.Rollouts, l.experiences + 1, string(list)}})
		if err != nil {
			return false, err
		}
		_, err = t.Exec(ctx, "UPDATE trinity_buffers SET records = ?, experiences = ?, rollouts = ? WHERE name = ?",
			records, experiences, rollouts, l.name)
		return true, err
	})
	if err != nil {
		return 0, err
	}
	l.records, l.experiences, l.rollouts = records, experiences, rollouts
	return l.records - 1, nil
}

// undo removes the rows after the last acknowledged record.
func (l *sqlLog) undo(ctx context.Context, t database.Tx) error {
	if _, err := t.Exec(ctx, "DELETE FROM trinity_experiences WHERE buffer = ? AND number > ?", l.name, l.experiences); err != nil {
		return err
	}
	_, err := t.Exec(ctx, "DELETE FROM trinity_deliveries WHERE buffer = ? AND record >= ?", l.name, l.records)
	return err
}

// text returns a cursor as text, or NULL if there is none.
func text(json json.RawMessage) any {
	if json == nil {
		return nil
	}
	return string(json)
}

const headColumns = "record, explorer, delivery, needs, state, rollouts, first, sizes"

// storedHead is a row of trinity_deliveries.
type storedHead struct {
	Head
	number, first int64
	sizes         []int
}

func scanHead(rows *sql.Rows) (h storedHead, err error) {
	var state, sizes []byte
	if err := rows.Scan(&h.number, &h.Explorer, &h.Delivery, &h.Needs, &state, &h.Rollouts, &h.first, &sizes); err != nil {
		return h, err
	}
	h.Cursor = state
	if err := json.Unmarshal(sizes, &h.sizes); err != nil {
		return h, fmt.Errorf("record %d: sizes: %w", h.number, err)
	}
	for _, n := range h.sizes {
		h.Experiences += n
	}
	return h, nil
}

// heads reads the heads of the records from number from to before to, in order.
func (l *sqlLog) heads(ctx context.Context, from, to int64) (heads []storedHead, err error) {
	const query = "SELECT " + headColumns +
		" FROM trinity_deliveries WHERE buffer = ? AND record >= ? AND record < ? ORDER BY record"
	err = l.db.Each(ctx, query, []any{l.name, from, to}, func() { heads = nil }, func(rows *sql.Rows) error {
		h, err := scanHead(rows)
		heads = append(heads, h)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, h := range heads {
		if h.number != from+int64(i) {
			return nil, l.missing(from + int64(i))
		}
	}
	if int64(len(heads)) != to-from {
		return nil, l.missing(from + int64(len(heads)))
	}
	return heads, nil
}

func (l *sqlLog) missing(record int64) error {
	return fmt.Errorf("%s: delivery %d is missing or incomplete, and nobody has taken it: was it removed? Bring it back, or give the "+
		"run another name to begin anew", l, record)
}

// Heads implements Log.
func (l *sqlLog) Heads(ctx context.Context, visit func(number int64, h Head) error) error {
	heads, err := l.heads(ctx, l.trimmed, l.records)
	if err != nil {
		return err
	}
	for _, h := range heads {
		if err := visit(h.number, h.Head); err != nil {
			return err
		}
	}
	return nil
}

// Read implements Log.
func (l *sqlLog) Read(ctx context.Context, number int64, from, to int) (Record, error) {
	heads, err := l.heads(ctx, number, number+1)
	if err != nil {
		return Record{}, err
	}
	h := heads[0]
	to = min(to, h.Experiences)
	exps, err := l.read(ctx, h.first+int64(from), h.first+int64(to))
	if err != nil {
		return Record{}, err
	}
	if len(exps) != to-from {
		return Record{}, l.missing(number)
	}
	r := Record{Head: h.Head}
	for end, begin := 0, 0; begin < to && len(h.sizes) > 0; begin, h.sizes = end, h.sizes[1:] {
		end = begin + h.sizes[0]
		if a, b := max(begin, from), min(end, to); a < b {
			r.Groups = append(r.Groups, exps[a-from:b-from])
		}
	}
	return r, nil
}

// read reads the experiences from number from to before to, in order.
func (l *sqlLog) read(ctx context.Context, from, to int64) (exps []*trinity.Experience, err error) {
	const query = "SELECT number, prompt, response, experience FROM trinity_experiences " +
		"WHERE buffer = ? AND number >= ? AND number < ? ORDER BY number"
	err = l.db.Each(ctx, query, []any{l.name, from, to}, func() { exps = nil }, func(rows *sql.Rows) error {
		var number int64
		var row sqlRow
		err := rows.Scan(&number, &row.prompt, &row.response, (*sql.RawBytes)(&row.blob))
		if err != nil || row.blob == nil {
			return err
		}
		e, err := row.decode()
		if err != nil {
			return fmt.Errorf("experience %d of %s: %w", number, l, err)
		}
		exps = append(exps, e)
		return nil
	})
	return exps, err
}

// trimRows bounds the rows that one transaction trims, because a Put waits for it and the server
// must not seem silent meanwhile.
const trimRows = 1000

// Trim implements Log. The rows keep the columns that people read. A stopped run leaves the rest to
// the next checkpoint.
func (l *sqlLog) Trim(ctx context.Context, before int64) error {
	before = min(before, l.records)
	if before <= l.trimmed {
		return l.db.Update(ctx, func(ctx context.Context, t database.Tx) (bool, error) {
			_, err := l.begin(ctx, t)
			return false, err
		})
	}
	heads, err := l.heads(ctx, l.trimmed, before)
	if err != nil {
		return err
	}
	last := heads[len(heads)-1]
	for from, end := heads[0].first, last.first+int64(last.Experiences); ; from += trimRows {
		done := from+trimRows >= end
		err := l.db.Update(ctx, func(ctx context.Context, t database.Tx) (bool, error) {
			if _, err := l.begin(ctx, t); err != nil {
				return false, err
			}
			const rows = "UPDATE trinity_experiences SET experience = NULL WHERE buffer = ? AND number >= ? AND number < ?"
			if _, err := t.Exec(ctx, rows, l.name, from, min(from+trimRows, end)); err != nil || !done {
				return true, err
			}
			_, err := t.Exec(ctx, "UPDATE trinity_buffers SET trimmed = ? WHERE name = ?", before, l.name)
			return true, err
		})
		if err != nil {
			return err
		}
		if done {
			l.trimmed = before
			return nil
		}
		if l.db.Stopped() {
			return nil
		}
	}
}

// Close implements Log.
func (l *sqlLog) Close() error { return l.db.Close() }
