package environment

import (
	"encoding/json"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func fileTask(columns map[string]any) *trinity.Task {
	row := map[string]any{"q": "Tidy up."}
	maps.Copy(row, columns)
	return &trinity.Task{Row: row, Format: trinity.TaskFormat{PromptKey: "q", ResponseKey: "a"}}
}

// openFiles begins an episode with a row's files.
func openFiles(t *testing.T, args, columns map[string]any) (trinity.Environment, trinity.Observation) {
	t.Helper()
	env, err := open(t, "files", args).OpenEnvironment(t.Context(), fileTask(columns))
	if err != nil {
		t.Fatal(err)
	}
	first, err := env.Reset(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	return env, first
}

// act gives an action to an environment that does not break.
func act(t *testing.T, env trinity.Environment, a trinity.Action) trinity.Outcome {
	t.Helper()
	out, err := env.Step(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFilesConforms(t *testing.T) {
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: fileTask(map[string]any{"files": map[string]any{"a.txt": "one\n"}}),
		Act: func(i int, _ trinity.Observation) trinity.Action {
			return []trinity.Action{call("list_files", `{}`), call("edit_file", `{"path": "a.txt", "old": "one", "new": "two"}`),
				call("read_file", `{"path": "b.txt"}`), {Text: "done"}}[i]
		},
	}, open(t, "files", nil))
}

func TestFilesTools(t *testing.T) {
	env, first := openFiles(t, map[string]any{"ask": "{question} {files}", "max_file": 200, "max_files": 4, "max_answer": 100},
		map[string]any{"files": map[string]any{"a.txt": "one\ntwo\n", "sub/b.txt": "b", "long.txt": strings.Repeat("0123456789\n", 18)}})
	if got := first.Messages[0].Content; got != "Tidy up. a.txt (8)\nlong.txt (198)\nsub/b.txt (1)" {
		t.Errorf("asks %q", got)
	}
	for _, c := range []struct{ name, args, want string }{
		{"list_files", `{"folder": "sub/"}`, "sub/b.txt (1)"},
		{"list_files", `{"folder": "su"}`, "(no files)"},
		{"read_file", `{"path": "a.txt"}`, "one\ntwo\n"},
		{"read_file", `{"path": "a.txt", "first_line": 2}`, "two\n"},
		{"read_file", `{"path": "long.txt"}`, "first_line 4 is the line cut here"},
		{"edit_file", `{"path": "a.txt", "old": "two", "new": "2"}`, "edited"},
		{"read_file", `{"path": "a.txt"}`, "one\n2\n"},
		{"write_file", `{"path": "c", "content": "c"}`, "written"},
		{"delete_file", `{"path": "c"}`, "deleted"},
		{"write_file", `{"path": "sub", "content": ""}`, "sub cannot be a file, because it is a folder"},
		{"write_file", `{"path": "a.txt/x", "content": ""}`, "because a.txt is one"},
		{"write_file", `{"path": "c", "content": ""}`, "written"},

		{"read_file", `{"path": "../a.txt"}`, `error: there is no file "../a.txt"`},
		{"write_file", `{"path": "../a.txt", "content": ""}`, "error: \"../a.txt\" is no path below the folder"},
		{"write_file", `{"path": "/etc/passwd", "content": ""}`, "is no path below the folder"},
		{"write_file", `{"path": "sub/../../a", "content": ""}`, "is no path below the folder"},
		{"write_file", `{"path": "..\\a", "content": ""}`, "is no path below the folder"},
		{"write_file", `{"path": ".", "content": ""}`, "is no path below the folder"},
		{"write_file", `{"path": "d", "content": ""}`, "the folder has 4 files"},
		{"write_file", `{"path": "c", "content": "` + strings.Repeat("x", 201) + `"}`, "c would have 201 bytes"},
		{"write_file", `{"path": "c"}`, `want the argument "content"`},
		{"edit_file", `{"path": "a.txt", "old": "x", "new": ""}`, "occurs 0 times"},
		{"edit_file", `{"path": "long.txt", "old": "0", "new": ""}`, "occurs 18 times"},
		{"edit_file", `{"path": "a.txt", "old": "", "new": "y"}`, `want the arguments "old" and "new"`},
		{"read_file", `{"path": "a.txt", "first_line": 9}`, "a.txt has 3 lines"},
		{"read_file", `{}`, `want the argument "path"`},
		{"read_file", `{"file": "a.txt"}`, `unknown field "file"`},
		{"read_file", `[]`, "the arguments of read_file"},
		{"run", `{}`, `there is no tool "run", only delete_file, edit_file, list_files, read_file, write_file`},
	} {
		env.(*editing).replies = 0
		out := act(t, env, call(c.name, c.args))
		if got := out.Messages[0].Content; !strings.Contains(got, c.want) || out.ToolError != strings.HasPrefix(got, "error: ") || out.Done {
			t.Errorf("%s %s: %q, want %q", c.name, c.args, got, c.want)
		}
	}
}

func TestFilesScores(t *testing.T) {
	expected := map[string]any{"a.txt": "1", "gone": nil}
	given := map[string]any{"a.txt": "0", "gone": "x"}
	edit, remove := call("write_file", `{"path": "a.txt", "content": "1"}`), call("delete_file", `{"path": "gone"}`)
	for _, c := range []struct {
		args, columns map[string]any
		actions       []trinity.Action
		want          float64
	}{
		{nil, map[string]any{"files": given, "expected": expected}, []trinity.Action{edit, remove}, 1},
		{nil, map[string]any{"files": given, "expected": expected}, []trinity.Action{edit}, 0},
		{map[string]any{"partial": true}, map[string]any{"files": given, "expected": expected}, []trinity.Action{edit}, 0.5},
		{nil, map[string]any{"a": "done"}, nil, 1},
		{nil, map[string]any{"a": "other"}, nil, 0},
	} {
		env, _ := openFiles(t, c.args, c.columns)
		for _, a := range c.actions {
			if out := act(t, env, a); out.Done || out.Reward != nil {
				t.Errorf("before the end: %+v", out)
			}
		}
		out := act(t, env, trinity.Action{Text: "All is\ndone"})
		if !out.Done || out.Reward == nil || *out.Reward != c.want {
			t.Errorf("%v: %+v, want %g", c.columns, out, c.want)
		}
	}
	env, _ := openFiles(t, map[string]any{"max_steps": 1}, map[string]any{"expected": map[string]any{"a.txt": "1"}})
	if out := act(t, env, edit); !out.Done || *out.Reward != 1 || out.Metrics["success"] != 1 {
		t.Errorf("after the last step: %+v", out)
	}
	if env, _ = openFiles(t, nil, nil); act(t, env, trinity.Action{}).Reward != nil {
		t.Error("nothing is expected, and there is a reward")
	}
}

func TestFilesRefuses(t *testing.T) {
	check := trinity.RequirementsOf(open(t, "files", map[string]any{"max_file": 10})).CheckTask
	for _, columns := range []map[string]any{
		{"q": nil}, {"files": []any{"a"}}, {"files": map[string]any{"../a": ""}}, {"files": map[string]any{"a": strings.Repeat("x", 11)}},
		{"expected": map[string]any{"/a": ""}}, {"expected": map[string]any{"a": 1}},
		{"expected": map[string]any{".": nil}}, {"expected": map[string]any{`a\b`: "x"}}, // nobody could do that
		{"expected": map[string]any{"a": "y", "a/b": "x"}}, {"expected": map[string]any{"a": strings.Repeat("x", 11)}},
	} {
		if err := check(fileTask(columns)); err == nil {
			t.Errorf("%v is accepted", columns)
		}
	}
	for _, args := range []map[string]any{{"max_steps": 0}, {"max_total": 0}, {"max_answer": 10}} {
		if _, err := registry.Environments.Build("files", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

func TestFilesSayWhatIsLeftOutOfALongLine(t *testing.T) {
	long := strings.Repeat("x", 200)
	files := map[string]any{"a": long + "\n" + long, "b": "1\n" + long}
	env, _ := openFiles(t, map[string]any{"max_answer": 100}, map[string]any{"files": files})
	for args, want := range map[string]string{
		`{"path": "a"}`: "… the rest of line 1 is left out", `{"path": "a", "first_line": 2}`: "… the rest of line 2 is left out",
		`{"path": "b"}`: "first_line 2 is the line cut here",
	} {
		if got := act(t, env, call("read_file", args)).Messages[0].Content; !strings.HasSuffix(got, want) {
			t.Errorf("%s: %q, want %q", args, got, want)
		}
	}
}

// Whatever the policy asks for, every file has a path below the folder, and the sizes hold.
func FuzzFilesStayInTheFolder(f *testing.F) {
	f.Add("write_file", `{"path": "a/b", "content": "x"}`, "edit_file", `{"path": "a", "old": "x", "new": "yy"}`)
	f.Add("delete_file", `{"path": "a"}`, "write_file", `{"path": "a/../../b", "content": "x"}`)
	f.Add("read_file", `{"path": "a", "first_line": -7}`, "list_files", `{"folder": "\u0000"}`)
	f.Fuzz(func(t *testing.T, name, args, name2, args2 string) {
		env, _ := openFiles(t, map[string]any{"max_file": 100, "max_total": 150, "max_files": 3},
			map[string]any{"files": map[string]any{"a": "x\ny"}})
		e := env.(*editing)
		for _, c := range []trinity.ToolCall{{Name: name, Arguments: json.RawMessage(args)}, {Name: name2, Arguments: json.RawMessage(args2)}} {
			act(t, env, trinity.Action{Calls: []trinity.ToolCall{c}})
		}
		total := 0
		for path, text := range e.files {
			if total += len(text); !fs.ValidPath(path) || len(text) > 100 {
				t.Errorf("%q has %d bytes", path, len(text))
			}
		}
		if total != e.total || total > 150 || len(e.files) > 3 {
			t.Errorf("%d bytes, counted %d, in %q", total, e.total, slices.Collect(maps.Keys(e.files)))
		}
	})
}
