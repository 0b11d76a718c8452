package archive

import (
	"context"
	"errors"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/experience"
)

// sqlSchema lists the versions of the table, see database.Migrate. Its columns are those of
// experience.Row; id counts the rows in the order in which they were written.
var sqlSchema = [][]string{{
	`CREATE TABLE IF NOT EXISTS trinity_archive (
		id {number},
		archive VARCHAR(255) NOT NULL,            -- the run's name for it
		step BIGINT NOT NULL,
		task {text} NOT NULL,
		run INT NOT NULL,
		turn INT NOT NULL,
		prompt {text} NOT NULL,
		response {text} NOT NULL,
		reward DOUBLE PRECISION,                  -- NULL without a valid reward
		reason {text} NOT NULL,
		model_version BIGINT NOT NULL,            -- the newest version that sampled it
		oldest_version BIGINT NOT NULL,
		truncated VARCHAR(64) NOT NULL,
		prompt_tokens INT NOT NULL,
		response_tokens INT NOT NULL,
		created TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
		experience {blob} NOT NULL,               -- all of it, in the binary form of package experience
		UNIQUE (archive, step, id)
	){table}`,
}}

const sqlColumns = "archive, step, task, run, turn, prompt, response, reward, reason, model_version, oldest_version, truncated, " +
	"prompt_tokens, response_tokens, experience"

// rows is an archive in a database: the rows of the table that carry its name.
type rows struct {
	db   *database.DB
	name string
}

func openRows(ctx context.Context, a dburl.Address, name string, o database.Options) (*rows, error) {
	db, err := database.Open(ctx, a, o)
	if err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, "archive", sqlSchema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &rows{db, name}, nil
}

// write replaces the rows of a step in one transaction, so it may be repeated when the answer to
// the commit was lost.
func (r *rows) write(ctx context.Context, step int64, exps []*trinity.Experience) error {
	values, err := r.values(exps)
	if err != nil {
		return err
	}
	return r.db.Update(ctx, func(ctx context.Context, t database.Tx) (bool, error) {
		if _, err := t.Exec(ctx, "DELETE FROM trinity_archive WHERE archive = ? AND step = ?", r.name, step); err != nil {
			return false, err
		}
		if len(values) == 0 {
			return true, nil
		}
		return true, t.InsertAll(ctx, "trinity_archive", sqlColumns, values)
	})
}

// values returns the experiences in the order of sqlColumns.
func (r *rows) values(exps []*trinity.Experience) ([][]any, error) {
	all, err := experience.Rows(exps)
	values := make([][]any, len(all))
	for i, e := range all {
		reward := exps[i].Reward
		values[i] = []any{
			r.name, e.Step, database.Text(e.Task), e.Run, e.Turn, database.Text(e.Prompt), database.Text(e.Response),
			database.Number(reward.Value, reward.Valid), database.Text(e.Reason), e.ModelVersion, e.OldestVersion,
			e.Truncated, e.PromptTokens, e.ResponseTokens, e.Experience,
		}
	}
	return values, err
}

func (r *rows) close() error { return r.db.Close() }
