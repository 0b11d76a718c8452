//go:build unix

package dataset

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/trinitytest/server"
)

// Tables of servers give the same values as files.
func TestTablesOfServers(t *testing.T) {
	for name, c := range map[string]struct {
		start func(*testing.T) *server.Server
		json  any // MariaDB's JSON is text
	}{
		"PostgreSQL": {server.Postgres, map[string]any{"a": int64(1)}},
		"MariaDB":    {server.MariaDB, `{"a": 1}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := c.start(t).URL
			address, err := dburl.Parse(url)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Retries: 100, RetryInterval: 50 * time.Millisecond}
			db, err := database.Open(t.Context(), address, database.Options{Retries: o.Retries, Interval: o.RetryInterval})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for _, s := range []string{
				"CREATE TABLE questions (id INT PRIMARY KEY, question TEXT, price NUMERIC(8,2), score FLOAT, day TIMESTAMP, meta JSON, missing TEXT)",
				`INSERT INTO questions VALUES (2, 'b', 1.50, 0.5, '2026-01-02 03:04:05', '{"a": 1}', NULL),
				(1, 'ä', 7, 2, '2026-01-02 03:04:05', '{"a": 1}', NULL)`,
				"CREATE TABLE unordered (x INT)",
			} {
				err := db.Update(t.Context(), func(ctx context.Context, tx database.Tx) (bool, error) {
					_, err := tx.Exec(ctx, s)
					return true, err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			o.Subset = "questions"
			d, err := Open(t.Context(), url, o)
			if err != nil {
				t.Fatal(err)
			}
			const day = "2026-01-02T03:04:05Z"
			for i, want := range []map[string]any{
				{"id": int64(1), "question": "ä", "price": json.Number("7.00"), "score": int64(2), "day": day, "meta": c.json, "missing": nil},
				{"id": int64(2), "question": "b", "price": json.Number("1.50"), "score": 0.5, "day": day, "meta": c.json, "missing": nil},
			} {
				row, err := d.Row(i)
				if err != nil || !reflect.DeepEqual(row, want) {
					t.Errorf("row %d: %#v, %v; want %#v", i, row, err, want)
				}
			}
			o.Retries = 0
			for subset, words := range map[string]string{"unordered": "no column id", "WITH x AS (SELECT 1) SELECT * FROM none": "none"} {
				o.Subset = subset
				if _, err := Open(t.Context(), url, o); err == nil || !strings.Contains(err.Error(), words) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%s: %v; want an error with %q", subset, err, words)
				}
			}
		})
	}
}
