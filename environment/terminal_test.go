package environment

import (
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/trinitytest"
)

func typed(line string) trinity.Action {
	return trinity.Action{Text: "Hm. <answer>" + line + "</answer>"}
}

func TestTerminalConforms(t *testing.T) {
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{},
		Act: func(i int, _ trinity.Observation) trinity.Action {
			return []trinity.Action{typed("pwd"), typed("cd"), typed("dir"), {Text: "ls"}}[i]
		},
	}, open(t, "cod_terminal", nil))
}

func TestShellCommands(t *testing.T) {
	unix := func() *shell {
		return &shell{home: "/home/ann", here: "/home/ann", files: map[string]string{"/home/ann/a.txt": "A", "/home/ann/work/b.txt": "B"},
			folders: map[string]bool{"/": true, "/home": true, "/home/ann": true, "/home/ann/work": true}}
	}
	for _, c := range []struct{ lines, says, files string }{
		{"pwd", "/home/ann", ""},
		{"ls", "a.txt\nwork/", ""},
		{"ls -la work", "b.txt", ""},
		{"cd work;", "!one command", ""},
		{"cd work\nls ..", "a.txt\nwork/", ""},
		{"cd work\ncd\npwd", "/home/ann", ""},
		{"cd nowhere", "!no such", ""},
		{"cat work/b.txt", "B", ""},
		{"cat ~/a.txt", "A", ""},
		{"cat /b.txt", "!no such", ""},
		{"cp a.txt work", "", "a.txt work/a.txt work/b.txt"},
		{"cp a.txt a.txt", "!same file", ""},
		{"mv work/b.txt c.txt", "", "a.txt c.txt"},
		{"mv work c", "!no such", ""},
		{"rm -f 'a.txt'", "", "work/b.txt"},
		{"rm work", "!is a folder", ""},
		{"mkdir work/new\nls work", "b.txt\nnew/", ""},
		{"mkdir work", "!exists", ""},
		{`echo "hello  x" > work/c.txt` + "\ncat work/c.txt", "hello  x", "a.txt work/b.txt work/c.txt"},
		{"echo hello x", "hello x", ""},
		{"echo x > a b", "!one file", ""},
		{"echo x > work", "!no such", ""},
		{"cp a.txt", "!number of arguments", ""},
		{"dir", "!command not found", ""},
		{"cat 'a.txt", "!not closed", ""},
		{"ls | cat", "!one command", ""},
	} {
		s := unix()
		says, err := "", error(nil)
		for line := range strings.Lines(c.lines) {
			says, err = s.run(strings.TrimSpace(line))
		}
		if reason, fails := strings.CutPrefix(c.says, "!"); fails != (err != nil) || fails && !strings.Contains(err.Error(), reason) ||
			!fails && says != c.says {
			t.Errorf("%q: %q, %v; want %q", c.lines, says, err, c.says)
		}
		var files []string
		for _, p := range slices.Sorted(maps.Keys(s.files)) {
			files = append(files, strings.TrimPrefix(p, "/home/ann/"))
		}
		if got := strings.Join(files, " "); c.files != "" && got != c.files {
			t.Errorf("%q leaves %s, want %s", c.lines, got, c.files)
		}
	}
	w := &shell{windows: true, home: "/Users/ann", here: "/Users/ann", files: map[string]string{"/Users/ann/a.txt": "A"},
		folders: map[string]bool{"/": true, "/Users": true, "/Users/ann": true}}
	for _, c := range []struct{ line, says string }{
		{"cd", `C:\Users\ann`}, {`dir /b C:\Users\ann`, "a.txt"}, {`type .\a.txt`, "A"}, {"copy a.txt b.txt", ""}, {"del b.txt", ""},
		{"md x", ""}, {"dir", "a.txt\nx/"}, {"ls", "!not recognized"}, {`type C:\b.txt`, `!C:\b.txt: no such`},
	} {
		says, err := w.run(c.line)
		if reason, fails := strings.CutPrefix(c.says, "!"); fails != (err != nil) || fails && !strings.Contains(err.Error(), reason) ||
			!fails && says != c.says {
			t.Errorf("%q: %q, %v; want %q", c.line, says, err, c.says)
		}
	}
}

// The tasks of a pack have one machine, and each can be done by its own words.
func TestTerminalTasksCanBeDone(t *testing.T) {
	machines, systems, kinds := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for seed := range 60 {
		env, err := open(t, "cod_terminal", map[string]any{"composite_ratio": 0}).OpenEnvironment(t.Context(),
			&trinity.Task{Row: map[string]any{"seed": seed, "pack_seed": seed % 4, "task_idx": seed % 3, "pack_size": 3}})
		if err != nil {
			t.Fatal(err)
		}
		first, err := env.Reset(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		e := env.(*typing)
		places := slices.Concat(slices.Sorted(maps.Keys(e.shell.files)), slices.Sorted(maps.Keys(e.shell.folders)))
		machines[strings.Join(places, " ")], systems[e.system], kinds[strings.Fields(e.asks)[0]] = true, true, true
		if text := first.Messages[0].Content; !strings.Contains(text, e.asks) || strings.Contains(text, "/"+strings.Fields(e.asks)[3]) {
			t.Errorf("the policy reads %q", text)
		}
		out, err := env.Step(t.Context(), typed(solution(e, places)))
		if err != nil || !out.Done || *out.Reward != 1 || out.Metrics["success"] != 1 {
			t.Errorf("%s: %s leads to %+v, %v", e.asks, solution(e, places), out, err)
		}
	}
	if len(machines) != 4 || len(systems) < 2 || len(kinds) != 6 {
		t.Errorf("%d machines of %v with tasks %v", len(machines), systems, kinds)
	}
}

// solution returns the command that a task asks for.
func solution(e *typing, places []string) string {
	words := strings.Fields(strings.TrimSuffix(e.asks, "."))
	at := func(name string) string {
		return places[slices.IndexFunc(places, func(p string) bool { return path.Base(p) == name })]
	}
	file, last := words[3], words[len(words)-1]
	command := func(i int) string { return shellCommands[i].name(e.shell) }
	switch words[0] {
	case "Copy":
		return command(4) + " " + at(file) + " " + at(last)
	case "Move":
		return command(5) + " " + at(file) + " " + at(last)
	case "Delete":
		return command(6) + " " + at(file)
	case "Rename":
		return command(5) + " " + at(file) + " " + path.Join(path.Dir(at(file)), last)
	case "Create":
		return command(7) + " " + path.Join(at(last), file)
	}
	return "echo hello " + strings.TrimSuffix(file, ".txt") + " > " + path.Join(at(last), file)
}

func TestTerminalEnds(t *testing.T) {
	for _, c := range []struct {
		replies []string
		done    bool
	}{
		{[]string{"ls"}, true}, {[]string{"<answer> </answer>"}, true}, {[]string{"<answer>pwd"}, true},
		{[]string{"<answer>pwd</answer>"}, false}, {[]string{"<answer>pwd</answer>", "<answer>cd</answer>"}, true},
	} {
		env, err := open(t, "cod_terminal", map[string]any{"max_steps": 2}).OpenEnvironment(t.Context(), &trinity.Task{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := env.Reset(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		var out trinity.Outcome
		for _, says := range c.replies {
			if out, err = env.Step(t.Context(), trinity.Action{Text: says}); err != nil {
				t.Fatal(err)
			}
		}
		if out.Done != c.done || *out.Reward != 0 {
			t.Errorf("%q: %+v", c.replies, out)
		}
	}
	bad := &trinity.Task{Row: map[string]any{"forced_task_type": "format"}}
	if err := trinity.RequirementsOf(open(t, "cod_terminal", nil)).CheckTask(bad); err == nil || !strings.Contains(err.Error(), "rename") {
		t.Errorf("an unknown kind: %v", err)
	}
	forced := &trinity.Task{Row: map[string]any{"forced_task_type": "rename"}}
	env, err := open(t, "cod_terminal", nil).OpenEnvironment(t.Context(), forced)
	if err != nil {
		t.Fatal(err)
	}
	if first, err := env.Reset(t.Context(), 5); err != nil || !strings.Contains(first.Messages[0].Content, "Rename the file") {
		t.Errorf("%+v, %v", first, err)
	}
}
