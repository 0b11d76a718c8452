package environment

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
	driver "modernc.org/sqlite"
	library "modernc.org/sqlite/lib"
)

func init() {
	registry.Environments.Register("sql",
		"The policy answers the row's question with queries to an SQLite database, which it can only read: the file that the row's column "+
			"database names, or what the script in its column setup makes. It reads the result of each query, and writes submit when the last "+
			"query is its answer. The reference answer is a query. Reward: 1 if both give the same rows, else 0; with partial the rows that "+
			"both have, as a share of the rows of either. The order counts if the reference has ORDER BY. Words of the messages: {question}, "+
			"{schema}, {result}, {steps} that are left. Metrics: success; valid, the share of the queries that SQLite takes.",
		func() trinity.EnvironmentOpener {
			return &sqlite{MaxSteps: 10, MaxRows: 20, QueryTimeout: 5, AutoSubmit: true,
				Ask: "{question}\n\nThe SQLite database has these tables:\n\n{schema}\n\nWrite one query between ``` and ``` to read its result. " +
					"Write ```submit``` when your last query gives the answer.",
				Tell: "{result}"}
		})
}

// sqlite asks questions about databases.
type sqlite struct {
	Folder       string  `yaml:"folder" doc:"folder of the files that rows name"`
	MaxSteps     int     `yaml:"max_steps" doc:"replies at most"`
	AutoSubmit   bool    `yaml:"auto_submit" doc:"after the last reply the last query is the answer; else the reward is 0"`
	MaxRows      int     `yaml:"max_rows" doc:"rows of a result that the policy reads"`
	QueryTimeout float64 `yaml:"query_timeout" doc:"seconds that a query may take"`
	Partial      bool    `yaml:"partial" doc:"give part of the reward for part of the rows"`
	Ask          string  `yaml:"ask" doc:"first message to the policy"`
	Tell         string  `yaml:"tell" doc:"message after each query"`
}

// Validate checks the arguments.
func (s *sqlite) Validate() error {
	switch {
	case s.MaxSteps < 1 || s.MaxRows < 1:
		return fmt.Errorf("max_steps and max_rows: must be at least 1, got %d and %d", s.MaxSteps, s.MaxRows)
	case !(s.QueryTimeout > 0):
		return fmt.Errorf("query_timeout: must be above 0, got %g", s.QueryTimeout)
	}
	return nil
}

// Requires implements [trinity.Requirer].
func (s *sqlite) Requires() trinity.Requirements {
	return trinity.Requirements{CheckTask: s.checkTask}
}

func (s *sqlite) checkTask(t *trinity.Task) error {
	if _, err := t.Prompt(); err != nil {
		return err
	}
	if t.Truth() == "" {
		return fmt.Errorf("column %q: want the query that answers the question", t.Format.ResponseKey)
	}
	file, _, err := s.source(t)
	if err == nil && file != "" {
		_, err = os.Stat(file)
	}
	return err
}

// source returns the file of a task's database, or the script that makes it.
func (s *sqlite) source(t *trinity.Task) (file, setup string, err error) {
	if err := columns(t, map[string]any{"database": &file, "setup": &setup}); err != nil {
		return "", "", err
	}
	if (file == "") == (setup == "") {
		return "", "", errors.New("want a column database with the path of a file, or a column setup with a script")
	}
	if file != "" && !filepath.IsAbs(file) {
		file = filepath.Join(s.Folder, file)
	}
	return file, setup, nil
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (s *sqlite) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	return &querying{sqlite: s, task: t}, s.checkTask(t)
}

// querying is one episode.
type querying struct {
	*sqlite
	task          *trinity.Task
	pool          *sql.DB
	conn          *sql.Conn
	wanted, last  *table // last is nil without a query that worked
	replies       int
	queries, read int // queries, and those that SQLite takes
	heard         string
}

// table is the result of a query.
type table struct {
	columns []string
	rows    []string // each as one text
}

// Reset implements [trinity.Environment].
func (q *querying) Reset(ctx context.Context, _ uint64) (o trinity.Observation, err error) {
	if err := q.Close(); err != nil {
		return o, err
	}
	q.last, q.replies, q.queries, q.read, q.heard = nil, 0, 0, 0, ""
	if err := q.connect(ctx); err != nil {
		return o, err
	}
	reference := q.task.Truth()
	if q.wanted, err = q.query(ctx, reference); err != nil {
		return o, fmt.Errorf("the reference query %q: %w", reference, err)
	}
	schema, err := q.query(ctx, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
	if err != nil {
		return o, err
	}
	question, err := q.task.Prompt()
	if err != nil {
		return o, err
	}
	return q.says(q.Ask, "{question}", question, "{schema}", strings.Join(schema.rows, "\n")), nil
}

// mostInValue bounds the bytes of a value, so that no query needs much memory.
const mostInValue = 1 << 20

// connect opens the database for reading alone. What limits a connection holds for this one.
func (q *querying) connect(ctx context.Context) error {
	file, setup, err := q.source(q.task)
	if err != nil {
		return err
	}
	address := ":memory:"
	if file != "" {
		address = "file:" + strings.ReplaceAll(url.PathEscape(file), "%2F", "/") + "?mode=ro&_pragma=busy_timeout(10000)"
	}
	if q.pool, err = sql.Open("sqlite", address); err != nil {
		return err
	}
	if q.conn, err = q.pool.Conn(ctx); err != nil {
		return err
	}
	if _, err := q.conn.ExecContext(ctx, setup); err != nil {
		return fmt.Errorf("column \"setup\": %w", err)
	}
	for id, most := range map[int]int{library.SQLITE_LIMIT_ATTACHED: 0, library.SQLITE_LIMIT_LENGTH: mostInValue} {
		if _, err := driver.Limit(q.conn, id, most); err != nil { // no other file of this machine is read or written
			return err
		}
	}
	_, err = q.conn.ExecContext(ctx, "PRAGMA query_only = 1")
	return err
}

// query returns the result of a query.
func (q *querying) query(ctx context.Context, text string) (*table, error) {
	const most = 100_000
	limit := wait.Seconds(q.QueryTimeout)
	own, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the query took longer than %v", limit))
	defer cancel()
	rows, err := q.conn.QueryContext(own, text)
	if err != nil {
		return nil, errors.Join(context.Cause(own), err)
	}
	defer rows.Close()
	t := &table{}
	if t.columns, err = rows.Columns(); err != nil {
		return nil, err
	}
	values, into := make([]any, len(t.columns)), make([]any, len(t.columns))
	for i := range into {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		if len(t.rows) == most {
			return nil, fmt.Errorf("the result has more than %d rows", most)
		}
		cells := make([]string, len(values))
		for i, v := range values {
			cells[i] = cellText(v)
		}
		t.rows = append(t.rows, strings.Join(cells, " | "))
	}
	if err := rows.Err(); err != nil {
		return nil, errors.Join(context.Cause(own), err)
	}
	return t, nil
}

// cellText returns a value as the policy reads it. Equal numbers of different types are equal texts.
func cellText(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case float64:
		return strconv.FormatFloat(v, 'g', 12, 64)
	case int64:
		if n := float64(v); max(n, -n) < 1e12 {
			return cellText(n)
		}
	case []byte:
		return string(v)
	}
	return fmt.Sprint(v)
}

func (q *querying) says(text string, words ...string) trinity.Observation {
	text = strings.NewReplacer(append(words, "{steps}", strconv.Itoa(q.MaxSteps-q.replies))...).Replace(text)
	return trinity.Observation{Messages: []trinity.Message{{Role: "user", Content: text}}, State: "queries" + q.heard}
}

// Step implements [trinity.Environment].
func (q *querying) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	q.replies++
	query := strings.Trim(fencedCode(a.Text, "sql", "sqlite"), " \t\r\n;")
	result := "Submitted."
	submitted := strings.EqualFold(query, "submit")
	if !submitted {
		t, wrong := q.query(ctx, query)
		switch {
		case ctx.Err() != nil:
			return out, context.Cause(ctx)
		case wrong != nil:
			result = "Error: " + strings.ReplaceAll(wrong.Error(), "\n", "; ")
		default:
			q.last, result = t, t.shown(q.MaxRows)
			q.read++
		}
		q.queries++
		q.heard += "\n" + query
	}
	out.Done = submitted || q.replies == q.MaxSteps
	out.Observation = q.says(q.Tell, "{result}", result)
	out.Metrics = map[string]float64{"valid": float64(q.read) / max(1, float64(q.queries))}
	if out.Done {
		share, success := q.score(submitted)
		out.Reward, out.Metrics["success"] = &share, success
	}
	return out, nil
}

// score returns the reward of the last query, and whether it is right.
func (q *querying) score(submitted bool) (reward, success float64) {
	if !submitted && !q.AutoSubmit {
		return 0, 0
	}
	share := q.last.agreement(q.wanted, ordersRows(q.task.Truth()))
	if share == 1 {
		return 1, 1
	}
	if q.Partial {
		return share, 0
	}
	return 0, 0
}

// shown returns the first rows of the result.
func (t *table) shown(most int) string {
	lines := append([]string{strings.Join(t.columns, " | ")}, t.rows[:min(most, len(t.rows))]...)
	if more := len(t.rows) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more rows", more))
	}
	if len(t.rows) == 0 {
		lines = append(lines, "(no rows)")
	}
	return strings.Join(lines, "\n")
}

// agreement returns the rows that both results have as a share of the rows of either, 1 if they are
// the same. The names of columns do not count. With ordered, the same rows in another order do not
// give 1.
func (t *table) agreement(wanted *table, ordered bool) float64 {
	if t == nil || len(t.columns) != len(wanted.columns) {
		return 0
	}
	count := map[string]int{}
	for _, row := range wanted.rows {
		count[row]++
	}
	both := 0
	for _, row := range t.rows {
		if count[row] > 0 {
			count[row]--
			both++
		}
	}
	either := len(t.rows) + len(wanted.rows) - both
	switch {
	case either == 0:
		return 1
	case both == either && ordered && !slices.Equal(t.rows, wanted.rows):
		return 0.5
	}
	return float64(both) / float64(either)
}

// ordersRows reports whether a query orders its result: it has ORDER BY outside of parentheses.
func ordersRows(query string) bool {
	depth := 0
	outside := strings.Map(func(r rune) rune {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth > 0 {
			return -1
		}
		return r
	}, query)
	return strings.Contains(strings.Join(strings.Fields(strings.ToLower(outside)), " "), "order by")
}

// Close implements [trinity.Environment].
func (q *querying) Close() (err error) {
	if q.conn != nil {
		err = q.conn.Close()
	}
	if q.pool != nil {
		err = errors.Join(err, q.pool.Close())
	}
	q.conn, q.pool = nil, nil
	return err
}
