package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/database"
)

// sqlSchema are the versions of the table, see database.Migrate.
var sqlSchema = [][]string{{
	`CREATE TABLE IF NOT EXISTS trinity_archive (
		id {number},                              -- 1, 2, 3 … in the order of writing
		archive VARCHAR(255) NOT NULL,            -- its name
		step BIGINT NOT NULL,
		task {text} NOT NULL,
		run INT NOT NULL,
		turn INT NOT NULL,
		prompt {text} NOT NULL,
		response {text} NOT NULL,
		reward DOUBLE PRECISION,                  -- NULL where it has none
		reason {text} NOT NULL,
		model_version BIGINT NOT NULL,            -- the newest that sampled it
		oldest_version BIGINT NOT NULL,
		truncated VARCHAR(64) NOT NULL,
		prompt_tokens INT NOT NULL,
		response_tokens INT NOT NULL,
		created TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
		experience {blob} NOT NULL,               -- the whole, in the form of package experience
		UNIQUE (archive, id)
	){table}`,
}}

const sqlColumns = "archive, step, task, run, turn, prompt, response, reward, reason, model_version, oldest_version, truncated, prompt_tokens, response_tokens, experience"

// sqlRows is an archive in a database: the rows of the table that have its name. Steps ascend with the rows' ids.
type sqlRows struct {
	db   *database.DB
	name string
	last int64 // id of the last row that stays
	sure bool  // nothing is behind it
}

func openRows(ctx context.Context, a database.Address, name string, o database.Options) (*sqlRows, error) {
	o.Alone = true
	db, err := database.Open(ctx, a, o)
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, "archive", sqlSchema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &sqlRows{db: db, name: name}, nil
}

func (r *sqlRows) open(ctx context.Context, step int64) error {
	return r.db.Update(ctx, func(t database.Tx) (bool, error) {
		err := t.Row(ctx, "SELECT id FROM trinity_archive WHERE archive = ? AND step < ? ORDER BY id DESC LIMIT 1", []any{r.name, step}, &r.last)
		if err == nil {
			return true, r.cut(ctx, t)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return false, err
		}
		aside, err := r.aside(ctx, t)
		if err == nil {
			_, err = t.Exec(ctx, "UPDATE trinity_archive SET archive = ? WHERE archive = ?", aside, r.name)
		}
		return true, err
	})
}

// cut removes what is behind the last row that stays.
func (r *sqlRows) cut(ctx context.Context, t database.Tx) error {
	_, err := t.Exec(ctx, "DELETE FROM trinity_archive WHERE archive = ? AND id > ?", r.name, r.last)
	return err
}

// aside is the archive's name with the first number behind it that no archive has.
func (r *sqlRows) aside(ctx context.Context, t database.Tx) (string, error) {
	for i := 1; ; i++ {
		name, id := fmt.Sprintf("%s.%d", r.name, i), int64(0)
		err := t.Row(ctx, "SELECT id FROM trinity_archive WHERE archive = ? LIMIT 1", []any{name}, &id)
		if errors.Is(err, sql.ErrNoRows) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
	}
}

// write puts a step behind the last row that stays. What is there already gives way: a try whose commit was not answered.
func (r *sqlRows) write(ctx context.Context, _ int64, exps []*trinity.Experience) error {
	rows, err := r.values(exps)
	if err != nil {
		return err
	}
	var last int64
	err = r.db.Update(ctx, func(t database.Tx) (bool, error) {
		if !r.sure {
			if err := r.cut(ctx, t); err != nil {
				return false, err
			}
		}
		r.sure = false
		if err := t.InsertAll(ctx, "trinity_archive", sqlColumns, rows); err != nil {
			return false, err
		}
		return true, t.Row(ctx, "SELECT id FROM trinity_archive WHERE archive = ? ORDER BY id DESC LIMIT 1", []any{r.name}, &last)
	})
	if err == nil {
		r.last, r.sure = last, true
	}
	return err
}

// values are the experiences in the order of sqlColumns.
func (r *sqlRows) values(exps []*trinity.Experience) ([][]any, error) {
	rows, err := rowsOf(exps)
	values := make([][]any, len(rows))
	for i, e := range rows {
		reward := exps[i].Reward
		values[i] = []any{r.name, e.Step, database.Text(e.Task), e.Run, e.Turn, database.Text(e.Prompt), database.Text(e.Response), database.Number(reward.Value, reward.Valid),
			database.Text(e.Reason), e.ModelVersion, e.OldestVersion, e.Truncated, e.PromptTokens, e.ResponseTokens, e.Experience}
	}
	return values, err
}

func (r *sqlRows) close() error { return r.db.Close() }
