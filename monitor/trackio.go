package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/database"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/rundir"
)

func init() {
	Monitors.Register("trackio", "Writes Trackio's database in TRACKIO_DIR, or sends to a Trackio server, whose secret is "+
		"TRACKIO_WRITE_TOKEN.",
		func() trinity.Monitor {
			return &trackio{Follower: newFollower(), Tables: true, Dir: os.Getenv("TRACKIO_DIR"), ServerURL: os.Getenv("TRACKIO_SERVER_URL")}
		})
}

// trackio writes the SQLite file of a Trackio project, or sends the same rows to a server. Each row
// has an ID that is unique there, so a row that comes twice is one row.
type trackio struct {
	Follower  `yaml:",inline"`
	Dir       string `yaml:"dir" doc:"Trackio's directory; TRACKIO_DIR, or trackio in Hugging Face's cache"`
	ServerURL string `yaml:"server_url" doc:"address of a server; TRACKIO_SERVER_URL, else rows are written to dir"`
	Tables    bool   `yaml:"tables" doc:"send the rollouts that the run's trace keeps of a train step, as Trackio's traces"`

	run Run
}

// trackioTables are the tables of Trackio 0.43 that the sink fills.
var trackioTables = []string{
	`CREATE TABLE IF NOT EXISTS metrics (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, timestamp TEXT NOT NULL,
		run_name TEXT NOT NULL, step INTEGER NOT NULL, metrics TEXT NOT NULL, log_id TEXT, space_id TEXT)`,
	`CREATE UNIQUE INDEX IF NOT EXISTS idx_metrics_log_id ON metrics(log_id) WHERE log_id IS NOT NULL`,
	`CREATE INDEX IF NOT EXISTS idx_metrics_run_step ON metrics(run_id, step)`,
	`CREATE TABLE IF NOT EXISTS configs (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT NOT NULL, run_name TEXT NOT NULL,
		config TEXT NOT NULL, created_at TEXT NOT NULL, UNIQUE(run_id))`,
	`CREATE TABLE IF NOT EXISTS traces (id TEXT PRIMARY KEY, run_id TEXT NOT NULL, timestamp TEXT NOT NULL, run_name TEXT NOT NULL,
		step INTEGER NOT NULL, key TEXT NOT NULL, trace_index INTEGER, messages TEXT NOT NULL, metadata TEXT NOT NULL,
		search_text TEXT NOT NULL, log_id TEXT, space_id TEXT, spans TEXT NOT NULL DEFAULT '[]')`,
}

// trackioRow is a row as the server takes it.
type trackioRow struct {
	Project string                   `json:"project"`
	Run     string                   `json:"run"`
	RunID   string                   `json:"run_id"`
	Step    int64                    `json:"step"`
	Metrics map[string]rundir.Number `json:"metrics"`
	LogID   string                   `json:"log_id"`
	Config  map[string]any           `json:"config,omitempty"`
}

// Begin implements [Sink].
func (t *trackio) Begin(ctx context.Context, run Run) error {
	run.Project = cmp.Or(run.Project, "trinity")
	t.run = run
	if t.ServerURL != "" {
		return nil // the rows bring the settings
	}
	config, err := json.Marshal(t.config())
	if err != nil {
		return err
	}
	return t.update(ctx, func(ctx context.Context, tx database.Tx) error {
		for _, table := range trackioTables {
			if _, err := tx.Exec(ctx, table); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "INSERT OR REPLACE INTO configs (run_id, run_name, config, created_at) VALUES (?, ?, ?, ?)",
			run.ID, run.Name, string(config), trackioTime(run.Began))
		return err
	})
}

// config returns the settings as Trackio keeps them.
func (t *trackio) config() map[string]any {
	config := map[string]any{"_Username": nil, "_Created": trackioTime(t.run.Began), "_Group": t.run.Group}
	for key, v := range t.run.Settings {
		config[strings.TrimLeft(key, "_")] = v // the server keeps names with _ for itself
	}
	return config
}

func trackioTime(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000000-07:00") }

// Takes implements [Sink].
func (t *trackio) Takes() Parts { return Parts{Tables: t.Tables} }

// Send implements [Sink].
func (t *trackio) Send(ctx context.Context, b Batch) error {
	for _, table := range b.Tables {
		if err := t.sendTable(ctx, table); err != nil {
			return err
		}
	}
	if len(b.Records) == 0 {
		return nil
	}
	records := b.Records
	rows := make([]trackioRow, len(records))
	for i, r := range records {
		rows[i] = trackioRow{Project: t.run.Project, Run: t.run.Name, RunID: t.run.ID, Step: r.Step, Metrics: rundir.Numbers(r.Metrics),
			LogID: fmt.Sprintf("%s %s %d", t.run.ID, series(r), r.Step)}
	}
	if t.ServerURL != "" {
		rows[0].Config = t.config()
		return t.post(ctx, rows)
	}
	return t.update(ctx, func(ctx context.Context, tx database.Tx) error {
		for i, row := range rows {
			text, err := json.Marshal(row.Metrics)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "INSERT OR IGNORE INTO metrics (timestamp, run_id, run_name, step, metrics, log_id) VALUES (?, ?, ?, ?, ?, ?)",
				trackioTime(records[i].Time), row.RunID, row.Run, row.Step, string(text), row.LogID)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// trackioTrace is a rollout as Trackio keeps it.
type trackioTrace struct {
	Type     string           `json:"_type"`
	Messages []trackioMessage `json:"messages"`
	Metadata map[string]any   `json:"metadata"`
}

type trackioMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// trackioKey is the name of the rollouts among Trackio's traces.
const trackioKey = "rollouts"

// sendTable sends a table. Trackio knows a rollout by the train step and its place in the table.
func (t *trackio) sendTable(ctx context.Context, table Table) error {
	traces := make([]trackioTrace, len(table.Rollouts))
	for i, r := range table.Rollouts {
		about := map[string]any{
			"id": r.ID, "task": r.Task, "explore_step": r.ExploreStep, "model_version": r.Version, "advantage": rundir.Number(r.Advantage),
		}
		if r.Reward != nil {
			about["reward"] = rundir.Number(*r.Reward)
		}
		for key, text := range map[string]string{"reason": r.Reason, "dropped": r.Dropped} {
			if text != "" {
				about[key] = text
			}
		}
		traces[i] = trackioTrace{"trackio.trace", []trackioMessage{{"user", r.Prompt}, {"assistant", r.Response}}, about}
	}
	logID := fmt.Sprintf("%s %s %d", t.run.ID, trackioKey, table.Step)
	if t.ServerURL != "" {
		return t.post(ctx, []any{map[string]any{
			"project": t.run.Project, "run": t.run.Name, "run_id": t.run.ID, "step": table.Step, "log_id": logID,
			"metrics": map[string]any{trackioKey: traces},
		}})
	}
	return t.update(ctx, func(ctx context.Context, tx database.Tx) error {
		for i, one := range traces {
			messages, err := json.Marshal(one.Messages)
			if err != nil {
				return err
			}
			about, err := json.Marshal(one.Metadata)
			if err != nil {
				return err
			}
			id, r := fmt.Sprintf("%s:%s:%s:%d", t.run.ID, logID, trackioKey, i), table.Rollouts[i]
			search := strings.ToLower(strings.Join([]string{id, trackioKey, r.Task, r.Prompt, r.Response}, " "))
			_, err = tx.Exec(ctx, "INSERT OR IGNORE INTO traces (id, run_id, timestamp, run_name, step, key, trace_index, messages, metadata, "+
				"search_text, log_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", id, t.run.ID, trackioTime(table.Time), t.run.Name, table.Step,
				trackioKey, i, string(messages), string(about), search, logID)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// post sends rows to the server.
func (t *trackio) post(ctx context.Context, rows any) error {
	r := retry.Request{
		Method: http.MethodPost, URL: strings.TrimRight(t.ServerURL, "/") + "/api/bulk_log",
		Header: http.Header{"X-Trackio-Write-Token": {os.Getenv("TRACKIO_WRITE_TOKEN")}},
	}
	var out map[string]any
	if err := client().JSON(ctx, r, map[string]any{"logs": rows, "hf_token": nil}, &out); err != nil {
		return err
	}
	if _, ok := out["data"]; !ok { // Trackio's is null
		return fmt.Errorf("%s: the answer is not Trackio's: it has no data", r)
	}
	return nil
}

// update changes the project's database. An error may pass: another program may hold the file.
func (t *trackio) update(ctx context.Context, fn func(context.Context, database.Tx) error) error {
	dir, err := t.dir()
	if err != nil {
		return err
	}
	address, err := dburl.Parse("sqlite:///" + filepath.Join(dir, trackioFile(t.run.Project)))
	if err != nil {
		return err
	}
	db, err := database.Open(ctx, address, database.Options{})
	if err != nil {
		return retry.Temporary(err)
	}
	defer db.Close()
	err = db.Update(ctx, func(ctx context.Context, tx database.Tx) (bool, error) { return true, fn(ctx, tx) })
	if err != nil {
		return retry.Temporary(err)
	}
	return nil
}

// dir returns the directory of the database.
func (t *trackio) dir() (string, error) {
	if t.Dir != "" {
		return filepath.Abs(t.Dir)
	}
	cache, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cmp.Or(os.Getenv("HF_HOME"), filepath.Join(cache, ".cache", "huggingface")), "trackio"), nil
}

// Target implements [Sink].
func (t *trackio) Target() string {
	if t.ServerURL != "" {
		return withoutSecrets(t.ServerURL)
	}
	dir, _ := t.dir() // Begin returns the error
	return dir
}

// trackioFile returns the name of a project's file.
func trackioFile(project string) string {
	safe := strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) || c == '-' || c == '_' {
			return c
		}
		return -1
	}, project)
	if safe == "" {
		return "default.db"
	}
	return safe + ".db"
}

// Tell implements [Sink]. Trackio knows no end of a run.
func (t *trackio) Tell(context.Context, Status) error { return nil }

// Validate refuses an address that is none.
func (t *trackio) Validate() error {
	if t.ServerURL == "" {
		return nil
	}
	return isAddress("server_url", t.ServerURL)
}
