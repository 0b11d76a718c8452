package environment

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

// playsAgain plays a recorded episode, and tests that everything that the environment says is as it was.
func playsAgain(t *testing.T, path string, opener trinity.EnvironmentOpener) {
	t.Helper()
	episode, err := readEpisode(path)
	if err != nil {
		t.Fatal(err)
	}
	first := episode[0]
	env, err := opener.OpenEnvironment(t.Context(), &trinity.Task{ID: first.Task.ID, Row: first.Task.Row, Format: first.Task.Format})
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	for i, want := range episode {
		var got trinity.Outcome
		if i == 0 {
			got.Observation, err = env.Reset(t.Context(), want.Seed)
		} else {
			got, err = env.Step(t.Context(), *want.Action)
		}
		if err != nil {
			t.Fatal(err)
		}
		shown, _ := json.Marshal(got)
		recorded, _ := json.Marshal(want.Outcome)
		if string(shown) != string(recorded) {
			t.Fatalf("line %d\n is %s\nwas %s", i+1, shown, recorded)
		}
	}
}

// recordedGame plays a number game with a recorder and returns the files.
func recordedGame(t *testing.T, guesses ...string) []string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "episodes")
	args := map[string]any{"environment": "number_guess", "environment_args": map[string]any{"guesses": 3}, "folder": folder}
	task := &trinity.Task{ID: "set/1#2", Row: map[string]any{"n": 5}, Format: trinity.TaskFormat{ResponseKey: "n"}}
	env, err := open(t, "recorder", args).OpenEnvironment(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := env.Reset(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	for _, guess := range guesses {
		step(t, env, guess)
	}
	if err := env.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "set-1-2-7-*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(err, files)
	}
	return files
}

// A recorded episode is a test of the environment, and of what plays it.
func TestRecordedEpisodesPlayAgain(t *testing.T) {
	guesses := []string{"9", "3", "5"}
	path := recordedGame(t, guesses...)[0]
	playsAgain(t, path, open(t, "number_guess", map[string]any{"guesses": 3}))
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{Row: map[string]any{"recording": path}},
		Act:  func(i int, _ trinity.Observation) trinity.Action { return trinity.Action{Text: guesses[i]} },
	}, open(t, "replayer", nil))

	env, first := begin(t, "replayer", map[string]any{"path": path}, nil)
	heard, out := episodeOf(t, env, guesses...)
	if first.Messages[0].Content != "Guess a number from 1 to 100." || strings.Join(heard, " ") != "< > " || !out.Done || *out.Reward != 1 {
		t.Errorf("hears %q, %q, %+v", first.Messages, heard, out)
	}
	if _, err := env.Step(t.Context(), trinity.Action{Text: "6"}); err == nil || !strings.Contains(err.Error(), `ends after 3 actions`) {
		t.Errorf("after the end: %v", err)
	}
	env, _ = begin(t, "replayer", map[string]any{"path": path}, nil)
	step(t, env, "9")
	const want = `action 2 of the recorded episode set-1-2-7-`
	_, err := env.Step(t.Context(), trinity.Action{Text: "4"})
	if err == nil || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), `is "3", and the policy did "4"`) {
		t.Errorf("another action: %v", err)
	}
}

// An episode that was cut off is recorded as well.
func TestRecorderWritesWhatWasCutOff(t *testing.T) {
	episode, err := readEpisode(recordedGame(t, "9")[0])
	if err != nil || len(episode) != 2 || episode[0].Task.ID != "set/1#2" || episode[0].Seed != 7 || episode[1].Action.Text != "9" {
		t.Errorf("%v, %+v", err, episode)
	}
}

func TestReplayerComparesCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls.jsonl")
	action, err := json.Marshal(recordLine{Action: &[]trinity.Action{call("add", `{"a":1,"b":2}`)}[0], Error: "the server died"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"task":{"id":"x"},"outcome":{}}`+"\n"+string(action)), 0o600); err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		`{"b": 2, "a": 1}`: "the server died", `{"a": 1}`: `is "" with a call add({"a":1,"b":2}), and the policy did "" with a call add({"a":1})`,
	} {
		env, _ := begin(t, "replayer", map[string]any{"path": path}, nil)
		other := call("add", arguments)
		other.Calls[0].ID = "another"
		if _, err := env.Step(t.Context(), other); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arguments, err, want)
		}
	}
}

func TestReplayerRefusesFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.jsonl")
	check := trinity.RequirementsOf(open(t, "replayer", nil)).CheckTask
	for _, text := range []string{"", "{}", `{"action":{}}`, `{"task":{}}` + "\n{}", `{"task":{}}` + "\nx"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := check(&trinity.Task{Row: map[string]any{"recording": path}}); err == nil || !strings.Contains(err.Error(), "bad.jsonl:") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := check(&trinity.Task{}); err == nil {
		t.Error("no file is accepted")
	}
	for _, args := range []map[string]any{{"environment": "number_guess"}, {"folder": "x"}, {"environment": "none", "folder": "x"}} {
		if _, err := registry.Environments.Build("recorder", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

// drawing is an environment that shows an image.
type drawing struct {
	inMemory
	seen trinity.Observation
}

func (d *drawing) Reset(context.Context, uint64) (trinity.Observation, error) { return d.seen, nil }

func (d *drawing) Step(context.Context, trinity.Action) (trinity.Outcome, error) {
	return trinity.Outcome{Observation: d.seen, Done: true}, nil
}

// Recorded messages have the digests of their images, and a replay shows the same ones.
func TestRecordedImages(t *testing.T) {
	message := trinity.Message{Role: "user", Content: "What is it?", Parts: []trinity.Part{
		{Text: "What "}, {Image: "sha256:" + strings.Repeat("0", 64)}, {Text: "is it?"},
	}}
	env := &recording{Environment: &drawing{seen: trinity.Observation{Messages: []trinity.Message{message}}}, folder: t.TempDir(),
		task: &trinity.Task{ID: "t"}}
	if _, err := env.Reset(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := env.Step(t.Context(), trinity.Action{Text: "a dot"}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(env.folder, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	again, err := (&replayer{Path: files[0]}).OpenEnvironment(t.Context(), &trinity.Task{ID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	seen, err := again.Reset(t.Context(), 2)
	if err != nil || !reflect.DeepEqual(seen.Messages, []trinity.Message{message}) {
		t.Errorf("%+v, %v, want %+v", seen.Messages, err, message)
	}
	out, err := again.Step(t.Context(), trinity.Action{Text: "a dot"})
	if err != nil || !reflect.DeepEqual(out.Messages, []trinity.Message{message}) {
		t.Errorf("%+v, %v, want %+v", out.Messages, err, message)
	}
}
