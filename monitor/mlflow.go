package monitor

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/rundir"
)

func init() {
	Monitors.Register("mlflow", "Sends metrics and settings to an MLflow server: an experiment per project, a run per run. "+
		"Secrets: MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN.",
		func() trinity.Monitor {
			return &mlflow{Follower: newFollower(), Tables: true, URI: cmp.Or(os.Getenv("MLFLOW_TRACKING_URI"), "http://localhost:5000")}
		})
}

// mlflow speaks MLflow's tracking REST API. A tag with the run's ID finds the run of an earlier
// process. A point that comes twice is one point there: its key is name, step, time and value.
type mlflow struct {
	Follower `yaml:",inline"`
	URI      string `yaml:"uri" doc:"address of the server; MLFLOW_TRACKING_URI if that is set"`
	Username string `yaml:"username" doc:"of an account; else MLFLOW_TRACKING_USERNAME"`
	Password string `yaml:"password" secret:"true" doc:"of the account; better in MLFLOW_TRACKING_PASSWORD, which reaches no file"`
	Tables   bool   `yaml:"tables" doc:"send the rollouts that the trace keeps of a train step, as a table"`

	id        string // of the run at the server
	artifacts string // path of the run's artifacts at the server; "" if they are elsewhere
	elsewhere bool   // they are, so tables have no place
	tables    []mlflowTable
}

// mlflowTable is a table that the tag mlflowTablesTag of a run names.
type mlflowTable struct {
	Path string `json:"path"`
	Type string `json:"type"`
}

// MLflow shows and loads the tables that this tag names. Its length bounds their number.
const (
	mlflowTablesTag = "mlflow.loggedArtifacts"
	mlflowTables    = 100
)

// Limits of the server: points and parameters of a request, and characters.
const (
	mlflowMetrics = 1000
	mlflowParams  = 100
	mlflowKey     = 250
	mlflowValue   = 6000
)

// mlflowTag is the tag with the run's ID.
const mlflowTag = "trinity.run_id"

type mlflowPair struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

type mlflowMetric struct {
	Key       string        `json:"key"`
	Value     rundir.Number `json:"value"`
	Timestamp int64         `json:"timestamp"` // ms
	Step      int64         `json:"step"`
}

// mlflowRun is a run as the server returns it.
type mlflowRun struct {
	Info struct {
		ID        string `json:"run_id"`
		Artifacts string `json:"artifact_uri"`
	} `json:"info"`
	Data struct {
		Params []mlflowPair `json:"params"`
		Tags   []mlflowPair `json:"tags"`
	} `json:"data"`
}

// Begin implements [Sink].
func (m *mlflow) Begin(ctx context.Context, run Run) error {
	experiment, err := m.experiment(ctx, cmp.Or(run.Project, "trinity"))
	if err != nil {
		return err
	}
	if experiment == "" {
		return fmt.Errorf("%s: the answer names no experiment", m.request(http.MethodGet, "experiments"))
	}
	found, err := m.find(ctx, experiment, run)
	if err != nil {
		return err
	}
	if m.id = found.Info.ID; m.id == "" {
		return fmt.Errorf("%s: the answer names no run", m.request(http.MethodPost, "runs"))
	}
	if u, err := url.Parse(found.Info.Artifacts); err == nil && u.Scheme == "mlflow-artifacts" && u.Host == "" {
		m.artifacts = u.EscapedPath()
	}
	for _, tag := range found.Data.Tags {
		if tag.Key == mlflowTablesTag {
			_ = json.Unmarshal([]byte(tag.Value), &m.tables) // what cannot be read is replaced
		}
	}
	if err := m.call(ctx, "runs/update", map[string]any{"run_id": m.id, "status": "RUNNING", "run_name": run.Name}, nil); err != nil {
		return err
	}
	var missing []mlflowPair // parameters are write-once: a resumed run keeps the first ones
	for _, key := range slices.Sorted(maps.Keys(run.Settings)) {
		p := mlflowPair{mlflowName(key), shorten(fmt.Sprint(run.Settings[key]), mlflowValue)}
		if !slices.ContainsFunc(found.Data.Params, func(old mlflowPair) bool { return old.Key == p.Key }) {
			missing = append(missing, p)
		}
	}
	for part := range slices.Chunk(missing, mlflowParams) {
		if err := m.call(ctx, "runs/log-batch", map[string]any{"run_id": m.id, "params": part}, nil); err != nil {
			return err
		}
	}
	return nil
}

// experiment returns the ID of the named experiment, and creates it if there is none.
func (m *mlflow) experiment(ctx context.Context, name string) (string, error) {
	var there struct {
		Experiment struct {
			ID string `json:"experiment_id"`
		} `json:"experiment"`
	}
	err := m.get(ctx, "experiments/get-by-name?experiment_name="+url.QueryEscape(name), &there)
	var refused *retry.StatusError
	if !errors.As(err, &refused) || refused.Code != http.StatusNotFound {
		return there.Experiment.ID, err
	}
	var created struct {
		ID string `json:"experiment_id"`
	}
	err = m.call(ctx, "experiments/create", map[string]any{"name": name}, &created)
	if errors.As(err, &refused) && refused.Code == http.StatusBadRequest { // another run may have created it since
		err = retry.Temporary(err)
	}
	return created.ID, err
}

// find returns the run with the ID, and creates it if there is none.
func (m *mlflow) find(ctx context.Context, experiment string, run Run) (mlflowRun, error) {
	var found struct{ Runs []mlflowRun }
	err := m.call(ctx, "runs/search", map[string]any{
		"experiment_ids": []string{experiment}, "filter": fmt.Sprintf("tags.`%s` = '%s'", mlflowTag, run.ID), "max_results": 1,
	}, &found)
	if err != nil || len(found.Runs) > 0 {
		return append(found.Runs, mlflowRun{})[0], err
	}
	tags := []mlflowPair{{mlflowTag, run.ID}}
	if run.Group != "" {
		tags = append(tags, mlflowPair{"trinity.group", run.Group})
	}
	var created struct{ Run mlflowRun }
	err = m.call(ctx, "runs/create", map[string]any{
		"experiment_id": experiment, "run_name": run.Name, "start_time": run.Began.UnixMilli(), "tags": tags,
	}, &created)
	return created.Run, err
}

// Takes implements [Sink].
func (m *mlflow) Takes() Parts { return Parts{Tables: m.Tables && !m.elsewhere} }

// Send implements [Sink].
func (m *mlflow) Send(ctx context.Context, b Batch) error {
	var all []mlflowMetric
	for _, r := range b.Records {
		for _, name := range slices.Sorted(maps.Keys(r.Metrics)) {
			all = append(all, mlflowMetric{mlflowName(name), rundir.Number(r.Metrics[name]), max(0, r.Time.UnixMilli()), r.Step})
		}
	}
	for part := range slices.Chunk(all, mlflowMetrics) {
		if err := m.call(ctx, "runs/log-batch", map[string]any{"run_id": m.id, "metrics": part}, nil); err != nil {
			return err
		}
	}
	for _, t := range b.Tables {
		if err := m.sendTable(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// sendTable sends a table as a file, as MLflow's log_table writes it.
func (m *mlflow) sendTable(ctx context.Context, t Table) error {
	if m.artifacts == "" {
		m.elsewhere = true
		m.say("the server keeps the artifacts of the run elsewhere, so it gets no tables of rollouts; tables: false asks for none")
		return nil
	}
	table := mlflowTable{fmt.Sprintf("rollouts/step-%d.json", t.Step), "table"}
	r := m.request(http.MethodPut, "")
	r.URL = strings.TrimRight(m.URI, "/") + "/api/2.0/mlflow-artifacts/artifacts" + m.artifacts + "/" + table.Path
	if err := client().JSON(ctx, r, t.grid(), nil); err != nil { // the answer is empty
		return err
	}
	m.tables = append(slices.DeleteFunc(m.tables, func(old mlflowTable) bool { return old == table }), table)
	m.tables = m.tables[max(0, len(m.tables)-mlflowTables):]
	names, err := json.Marshal(m.tables)
	if err != nil {
		return err
	}
	return m.call(ctx, "runs/set-tag", map[string]any{"run_id": m.id, "key": mlflowTablesTag, "value": string(names)}, nil)
}

// Tell implements [Sink].
func (m *mlflow) Tell(ctx context.Context, s Status) error {
	status := map[Status]string{Finished: "FINISHED", Failed: "FAILED", Stopped: "KILLED"}[s]
	return m.call(ctx, "runs/update", map[string]any{"run_id": m.id, "status": status, "end_time": time.Now().UnixMilli()}, nil)
}

func (m *mlflow) call(ctx context.Context, what string, in, out any) error {
	return client().JSON(ctx, m.request(http.MethodPost, what), in, out)
}

func (m *mlflow) get(ctx context.Context, what string, out any) error {
	return client().JSON(ctx, m.request(http.MethodGet, what), nil, out)
}

func (m *mlflow) request(method, what string) retry.Request {
	r := retry.Request{Method: method, URL: strings.TrimRight(m.URI, "/") + "/api/2.0/mlflow/" + what, Header: http.Header{}}
	user, password := cmp.Or(m.Username, os.Getenv("MLFLOW_TRACKING_USERNAME")), cmp.Or(m.Password, os.Getenv("MLFLOW_TRACKING_PASSWORD"))
	if token := os.Getenv("MLFLOW_TRACKING_TOKEN"); user != "" {
		r.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	} else if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// Target implements [Sink].
func (m *mlflow) Target() string { return withoutSecrets(m.URI) }

// Validate refuses an address that is none.
func (m *mlflow) Validate() error { return isAddress("uri", m.URI) }

var notMLflow = regexp.MustCompile(`[^\w\-. /:]|\.\.|^/`)

// mlflowName returns a name that MLflow takes. As in Trinity-RFT, @ is _at_.
func mlflowName(name string) string {
	name = notMLflow.ReplaceAllString(strings.ReplaceAll(name, "@", "_at_"), "_")
	return cmp.Or(shorten(name, mlflowKey), "_")
}
