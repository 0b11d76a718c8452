package dataset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/trinity-go/trinity/internal/database"
)

// sorting is how long a server may say nothing: it has to sort all rows before it has the first.
const sorting = 10 * time.Minute

// openDatabase reads the rows of a table or a query, of which opts.Subset is the name or the text, once from beginning to end, so that they stay the same and in the
// same order while they are used. A table of Trinity-RFT's tasks, of the columns id and raw_task, has its rows in raw_task.
func openDatabase(url string, opts Options) (*Dataset, error) {
	address, err := database.Parse(url)
	if err != nil {
		return nil, err
	}
	if opts.Subset == "" {
		return nil, fmt.Errorf("%s: no table: set subset_name to a table or to a query", address)
	}
	ctx := opts.Stop
	if ctx == nil {
		ctx = context.Background()
	}
	db, err := database.Open(ctx, address, database.Options{ReadOnly: true, Retries: opts.Retries, Interval: opts.RetryInterval, Silence: sorting, Stop: opts.Stop, Say: opts.Note})
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

// rowOf is the JSON object of a table's row.
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
