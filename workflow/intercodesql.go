package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "intercode_sql_workflow"
	registry.Workflows.Register(name,
		"environment_workflow on questions to SQLite databases, with part of the reward for part of the rows, and with Trinity-RFT's "+
			"arguments. With data_path a row's prompt is an index into that file of InterCode, a list of {db, query, gold}, and the databases "+
			"are database_folder/DB/DB.sqlite, as Spider has them. Without it the rows have question, reference query and database.",
		func() trinity.Workflow {
			play := defaultPlay()
			play.Environment = strings.TrimPrefix(strings.TrimSuffix(name, "_workflow"), "intercode_")
			return &intercodeSQL{inEnvironment: inEnvironment{play}, MaxEnvSteps: 10, AutoSubmit: true, DatabaseFolder: "database"}
		})
}

// intercodeSQL asks questions to databases with the arguments of Trinity-RFT.
type intercodeSQL struct {
	inEnvironment  `yaml:",inline"`
	DataPath       string `yaml:"data_path" doc:"file of InterCode's questions"`
	DatabaseFolder string `yaml:"database_folder" doc:"folder of the databases that data_path names"`
	MaxEnvSteps    int    `yaml:"max_env_steps" doc:"replies of the policy at most; max_turns, if it is lower, counts"`
	AutoSubmit     bool   `yaml:"auto_submit" doc:"after the last reply the last query is the answer; else the reward is 0"`
	ImageName      string `yaml:"image_name" doc:"no effect: the databases are files"`
	Verbose        bool   `yaml:"verbose" doc:"no effect"`

	once      sync.Once
	questions []question
	unread    error // why data_path cannot be read
}

// question is an entry of InterCode's file.
type question struct{ DB, Query, Gold string }

// Validate builds the environment. It leaves the file to the first task, because a configuration
// can be checked where its data is not.
func (w *intercodeSQL) Validate() error {
	w.preset(map[string]any{"partial": true, "max_steps": w.MaxEnvSteps, "auto_submit": w.AutoSubmit})
	return w.playArgs.Validate()
}

// Requires implements [trinity.Requirer].
func (w *intercodeSQL) Requires() trinity.Requirements {
	needs := w.playArgs.Requires()
	check := needs.CheckTask
	needs.CheckTask = func(t *trinity.Task) error {
		own, err := w.task(t)
		if err != nil {
			return err
		}
		return check(own)
	}
	return needs
}

// Run implements [trinity.Workflow].
func (w *intercodeSQL) Run(ctx context.Context, r *trinity.Rollout) ([]*trinity.Experience, error) {
	own := *r
	var err error
	if own.Task, err = w.task(r.Task); err != nil {
		return nil, err
	}
	return w.inEnvironment.Run(ctx, &own)
}

// task returns the task with the question that its row counts.
func (w *intercodeSQL) task(t *trinity.Task) (*trinity.Task, error) {
	if w.DataPath == "" {
		return t, nil
	}
	w.once.Do(func() {
		data, err := os.ReadFile(w.DataPath)
		if err == nil {
			err = json.Unmarshal(data, &w.questions)
		}
		if err != nil {
			w.unread = fmt.Errorf("data_path: %w", err)
		}
	})
	text, err := t.Prompt()
	if err = errors.Join(w.unread, err); err != nil {
		return nil, err
	}
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= len(w.questions) {
		return nil, fmt.Errorf("column %q is %q, want an index below %d into %s", t.Format.PromptKey, text, len(w.questions), w.DataPath)
	}
	q, own := w.questions[i], *t
	own.Format = trinity.TaskFormat{PromptKey: "query", ResponseKey: "gold"}
	own.Row = map[string]any{"query": q.Query, "gold": q.Gold, "database": filepath.Join(w.DatabaseFolder, q.DB, q.DB+".sqlite")}
	return &own, nil
}
