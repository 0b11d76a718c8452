package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
)

// sorting is how long a server may be silent: it sorts all rows before it returns the first.
const sorting = 10 * time.Minute

// openDatabase reads all rows of a table or a query, named by opts.Subset, once, so that rows and
// order stay the same while the dataset is in use. In a table of Trinity-RFT's tasks, with the
// columns id and raw_task, raw_task holds the row.
func openDatabase(ctx context.Context, url string, opts Options) (*Dataset, error) {
	address, err := dburl.Parse(url)
	if err != nil {
		return nil, err
	}
	if opts.Subset == "" {
		return nil, fmt.Errorf("%s: no table: set subset_name to a table or to a query", address)
	}
	db, err := database.Open(ctx, address, database.Options{
		ReadOnly: true, Retries: opts.Retries, Interval: opts.RetryInterval, Silence: sorting, Say: opts.Note,
	})
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%s, %.60s", address, opts.Subset)
	var s shard
	err = db.Retry(ctx, func(ctx context.Context) error {
		s, err = spooled(&input{path: name, opts: opts}, "row", func(s *spool) error { return readRows(ctx, s, db, opts) })
		return err
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	d := &Dataset{name: name, starts: []int{0}}
	d.add(s)
	return d, nil
}

func readRows(ctx context.Context, s *spool, db *database.DB, opts Options) error {
	number := 0
	return db.Stream(ctx, opts.Subset, func(columns []database.Column) error {
		number++
		data, err := rowOf(columns)
		if err != nil {
			return fmt.Errorf("row %d: %w", number, err)
		}
		return s.add(number, data)
	})
}

// rowOf returns the JSON object of a table's row.
func rowOf(columns []database.Column) ([]byte, error) {
	row := make(map[string]any, len(columns))
	for _, c := range columns {
		if _, twice := row[c.Name]; twice {
			return nil, fmt.Errorf("two columns are named %s: give one another name (AS)", c.Name)
		}
		row[c.Name] = c.Value
	}
	task, tasks := row["raw_task"]
	if _, id := row["id"]; !tasks || !id || len(row) != 2 {
		if err := checkColumns(row); err != nil {
			return nil, err
		}
		return json.Marshal(row)
	}
	data, ok := task.(json.RawMessage)
	if text, is := task.(string); is {
		data, ok = json.RawMessage(text), true
	}
	if !ok {
		return nil, fmt.Errorf("raw_task is %T, want a JSON object", task)
	}
	return data, checkRow(data)
}
