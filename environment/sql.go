package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
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
	MaxSteps     int     `yaml:"max_steps" range:"[1,)" doc:"replies at most"`
	AutoSubmit   bool    `yaml:"auto_submit" doc:"after the last reply the last query is the answer; else the reward is 0"`
	MaxRows      int     `yaml:"max_rows" range:"[1,)" doc:"rows of a result that the policy reads"`
	QueryTimeout float64 `yaml:"query_timeout" range:"(0,inf]" doc:"seconds that a query may take, in a process of its own"`
	Partial      bool    `yaml:"partial" doc:"give part of the reward for part of the rows"`
	Ask          string  `yaml:"ask" doc:"first message to the policy"`
	Tell         string  `yaml:"tell" doc:"message after each query"`
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
	return &querying{args: s, task: t}, s.checkTask(t)
}

// querying is one episode.
type querying struct {
	inMemory
	args          *sqlite
	task          *trinity.Task
	wanted, last  *table // last is nil without a query that worked
	replies       int
	queries, read int // queries, and those that SQLite takes
	heard         string
}

// Reset implements [trinity.Environment].
func (q *querying) Reset(ctx context.Context, _ uint64) (o trinity.Observation, err error) {
	q.last, q.replies, q.queries, q.read, q.heard = nil, 0, 0, 0, ""
	reference := q.task.Truth()
	found, wrong, err := q.query(ctx, reference, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
	switch {
	case err != nil:
		return o, err
	case wrong != nil && len(found.Tables) == 0:
		return o, fmt.Errorf("the reference query %q: %w", reference, wrong)
	case wrong != nil:
		return o, fmt.Errorf("the schema of the database: %w", wrong)
	}
	q.wanted = found.Tables[0]
	question, err := q.task.Prompt()
	if err != nil {
		return o, err
	}
	return q.says(q.args.Ask, "{question}", question, "{schema}", strings.Join(found.Tables[1].Rows, "\n")), nil
}

// query returns the results of queries. wrong is the error of one that has none.
func (q *querying) query(ctx context.Context, texts ...string) (found findings, wrong, err error) {
	i := interview{Queries: texts, Limit: wait.Seconds(q.args.QueryTimeout)}
	if i.File, i.Setup, err = q.args.source(q.task); err != nil {
		return found, nil, err
	}
	return i.ask(ctx)
}

func (q *querying) says(text string, words ...string) trinity.Observation {
	return says(text, "queries"+q.heard, append(words, "{steps}", strconv.Itoa(q.args.MaxSteps-q.replies))...)
}

// Step implements [trinity.Environment].
func (q *querying) Step(ctx context.Context, a trinity.Action) (out trinity.Outcome, err error) {
	q.replies++
	query := strings.Trim(fencedCode(a.Text, "sql", "sqlite"), " \t\r\n;")
	result := "Submitted."
	submitted := strings.EqualFold(query, "submit")
	if !submitted {
		found, wrong, err := q.query(ctx, query)
		switch {
		case err != nil:
			return out, err
		case wrong != nil:
			result = cut("Error: " + strings.ReplaceAll(wrong.Error(), "\n", "; "))
		default:
			q.last = found.Tables[0]
			result = q.last.shown(q.args.MaxRows)
			q.read++
		}
		q.queries++
		q.heard += "\n" + query
	}
	out.Done = submitted || q.replies == q.args.MaxSteps
	out.Observation = q.says(q.args.Tell, "{result}", result)
	out.Metrics = map[string]float64{"valid": float64(q.read) / max(1, float64(q.queries))}
	if out.Done {
		share, success := q.score(submitted)
		out.Reward, out.Metrics["success"] = &share, success
	}
	return out, nil
}

// score returns the reward of the last query, and whether it is right.
func (q *querying) score(submitted bool) (reward, success float64) {
	if !submitted && !q.args.AutoSubmit {
		return 0, 0
	}
	share := q.last.agreement(q.wanted, ordersRows(q.task.Truth()))
	if share == 1 {
		return 1, 1
	}
	if q.args.Partial {
		return share, 0
	}
	return 0, 0
}

// mostShown bounds the bytes of a result that the policy reads.
const mostShown = 32 << 10

// shown returns the first rows of the result.
func (t *table) shown(most int) string {
	lines := append([]string{strings.Join(t.Columns, " | ")}, t.Rows[:min(most, len(t.Rows))]...)
	if more := len(t.Rows) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more rows", more))
	}
	if len(t.Rows) == 0 {
		lines = append(lines, "(no rows)")
	}
	return cut(strings.Join(lines, "\n"))
}

// cut returns the beginning of a text that is longer than the policy reads.
func cut(text string) string {
	if len(text) <= mostShown {
		return text
	}
	return fmt.Sprintf("%s … (%d bytes)", strings.ToValidUTF8(text[:mostShown], ""), len(text))
}

// agreement returns the rows that both results have as a share of the rows of either, 1 if they are
// the same. The names of columns do not count. With ordered, the same rows in another order do not
// give 1.
func (t *table) agreement(wanted *table, ordered bool) float64 {
	if t == nil || len(t.Columns) != len(wanted.Columns) {
		return 0
	}
	count := map[string]int{}
	for _, row := range wanted.Rows {
		count[row]++
	}
	both := 0
	for _, row := range t.Rows {
		if count[row] > 0 {
			count[row]--
			both++
		}
	}
	either := len(t.Rows) + len(wanted.Rows) - both
	switch {
	case either == 0:
		return 1
	case both == either && ordered && !slices.Equal(t.Rows, wanted.Rows):
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
