package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Environments.Register("recorder",
		"Another environment, each of whose episodes is written to a file in folder: one JSON object a line, first the task with the seed and "+
			"the first observation, then each action with its outcome.",
		func() trinity.EnvironmentOpener { return &recorder{} })
	registry.Environments.Register("replayer",
		"An episode that recorder wrote: the file path, or the one that the row's column recording names. The policy must act as it did then; "+
			"another action is an error that shows both.",
		func() trinity.EnvironmentOpener { return &replayer{} })
}

// recordLine is a line of a recorded episode. The first has the task, the seed and the observation that
// began the episode; the others have an action and its outcome.
type recordLine struct {
	Task    *recordedTask   `json:"task,omitempty"`
	Seed    uint64          `json:"seed,omitempty"`
	Action  *trinity.Action `json:"action,omitempty"`
	Outcome trinity.Outcome `json:"outcome"`
	Error   string          `json:"error,omitempty"` // of the environment, in place of the outcome
}

// recordedTask is what an environment reads of a task.
type recordedTask struct {
	ID     string             `json:"id"`
	Row    map[string]any     `json:"row"`
	Format trinity.TaskFormat `json:"format"`
}

// recorder records another environment.
type recorder struct {
	Environment string         `yaml:"environment" doc:"environment to record"`
	Args        map[string]any `yaml:"environment_args" doc:"its arguments"`
	Folder      string         `yaml:"folder" doc:"folder of the files"`

	opener trinity.EnvironmentOpener
}

// Validate builds the environment.
func (r *recorder) Validate() (err error) {
	if r.Environment == "" || r.Folder == "" {
		return errors.New("environment and folder: name the environment to record, and where the files go")
	}
	r.opener, err = registry.Environments.Build(r.Environment, r.Args)
	return err
}

// Requires implements [trinity.Requirer].
func (r *recorder) Requires() trinity.Requirements { return trinity.RequirementsOf(r.opener) }

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (r *recorder) OpenEnvironment(ctx context.Context, t *trinity.Task) (trinity.Environment, error) {
	env, err := r.opener.OpenEnvironment(ctx, t)
	if err != nil {
		return nil, err
	}
	return &recording{Environment: env, folder: r.Folder, task: t}, nil
}

// recording is one episode.
type recording struct {
	trinity.Environment
	folder  string
	task    *trinity.Task
	seed    uint64
	records []recordLine
}

// Reset implements [trinity.Environment].
func (r *recording) Reset(ctx context.Context, seed uint64) (trinity.Observation, error) {
	if err := r.write(); err != nil {
		return trinity.Observation{}, err
	}
	seen, err := r.Environment.Reset(ctx, seed)
	r.seed = seed
	r.add(recordLine{
		Task: &recordedTask{r.task.ID, r.task.Row, r.task.Format}, Seed: seed, Outcome: trinity.Outcome{Observation: seen},
	}, err)
	return seen, err
}

// Step implements [trinity.Environment].
func (r *recording) Step(ctx context.Context, a trinity.Action) (trinity.Outcome, error) {
	out, err := r.Environment.Step(ctx, a)
	r.add(recordLine{Action: &a, Outcome: out}, err)
	if err == nil && (out.Done || out.Truncated) {
		err = r.write()
	}
	return out, err
}

func (r *recording) add(line recordLine, err error) {
	if err != nil {
		line.Error = err.Error()
	}
	r.records = append(r.records, line)
}

// Close implements [trinity.Environment].
func (r *recording) Close() error { return errors.Join(r.write(), r.Environment.Close()) }

// noFileName is what does not stand in the names of files.
var noFileName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// write writes the episode to a new file.
func (r *recording) write() error {
	if len(r.records) == 0 {
		return nil
	}
	var text bytes.Buffer
	lines := json.NewEncoder(&text)
	for _, line := range r.records {
		if err := lines.Encode(line); err != nil {
			return err
		}
	}
	r.records = nil
	if err := durable.MkdirAll(r.folder, 0o755); err != nil {
		return err
	}
	name := strings.Trim(noFileName.ReplaceAllString(r.task.ID, "-"), "-.")
	name = fmt.Sprintf("%s-%d-%016x.jsonl", name, r.seed, rand.Uint64()) // rollouts of a group have the same seed
	return durable.WriteFile(filepath.Join(r.folder, name), text.Bytes())
}

// readEpisode reads an episode that recorder wrote.
func readEpisode(path string) (episode []recordLine, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for i, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var r recordLine
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
		if (i == 0) != (r.Task != nil) || (i > 0) != (r.Action != nil) {
			return nil, fmt.Errorf("%s:%d: want the task in the first line and an action in each of the others", path, i+1)
		}
		episode = append(episode, r)
	}
	return episode, nil
}

// replayer plays recorded episodes.
type replayer struct {
	Path string `yaml:"path" doc:"file of an episode"`
}

// Requires implements [trinity.Requirer].
func (r *replayer) Requires() trinity.Requirements {
	needs := trinity.Requirements{CheckTask: func(t *trinity.Task) error {
		_, _, err := r.of(t)
		return err
	}}
	if episode, err := readEpisode(r.Path); err == nil {
		needs.Tools = episode[0].Outcome.Tools != nil
	}
	return needs
}

// of returns the episode of a task.
func (r *replayer) of(t *trinity.Task) (path string, episode []recordLine, err error) {
	path = r.Path
	if err := columns(t, map[string]any{"recording": &path}); err != nil {
		return "", nil, err
	}
	if path == "" {
		return "", nil, errors.New("path: name the file of an episode, or give the rows a column recording")
	}
	episode, err = readEpisode(path)
	return path, episode, err
}

// OpenEnvironment implements [trinity.EnvironmentOpener].
func (r *replayer) OpenEnvironment(_ context.Context, t *trinity.Task) (trinity.Environment, error) {
	path, episode, err := r.of(t)
	return &replaying{path: filepath.Base(path), episode: episode}, err
}

// replaying is one episode.
type replaying struct {
	inMemory
	path    string
	episode []recordLine
	next    int
}

// Reset implements [trinity.Environment]. The episode is the recorded one, whatever the seed.
func (r *replaying) Reset(context.Context, uint64) (trinity.Observation, error) {
	r.next = 1
	first := r.episode[0]
	return first.Outcome.Observation, first.err()
}

// err returns the recorded error of the environment.
func (r *recordLine) err() error {
	if r.Error != "" {
		return errors.New(r.Error)
	}
	return nil
}

// Step implements [trinity.Environment].
func (r *replaying) Step(_ context.Context, a trinity.Action) (trinity.Outcome, error) {
	if r.next >= len(r.episode) {
		return trinity.Outcome{}, fmt.Errorf("the recorded episode %s ends after %d actions, and the policy goes on with %s",
			r.path, len(r.episode)-1, actionText(&a))
	}
	line := &r.episode[r.next]
	if got, want := actionText(&a), actionText(line.Action); got != want {
		return trinity.Outcome{}, fmt.Errorf("action %d of the recorded episode %s is %s, and the policy did %s", r.next, r.path, want, got)
	}
	r.next++
	return line.Outcome, line.err()
}

// actionText returns an action as one line. The IDs of calls do not count: they are drawn.
func actionText(a *trinity.Action) string {
	text := fmt.Sprintf("%q", a.Text)
	for _, c := range a.Calls {
		var arguments any
		shown := []byte(c.Arguments)
		if json.Unmarshal(c.Arguments, &arguments) == nil {
			shown, _ = json.Marshal(arguments) // what was just JSON, with sorted keys
		}
		text += fmt.Sprintf(" with a call %s(%s)", c.Name, shown)
	}
	return text
}
