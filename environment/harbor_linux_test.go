package environment

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/sandbox"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

const helloTest = `#!/bin/bash
if [ "$(cat /app/hello.txt)" = "$(cat /tests/want)" ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
`

// harborFolder writes a task folder and returns its row. The task asks for the file hello.txt; files are
// added to it and replace those of the same name.
func harborFolder(t *testing.T, files map[string]string) map[string]any {
	t.Helper()
	if _, err := sandbox.New(sandbox.Full); err != nil {
		t.Skip(err)
	}
	all := map[string]string{
		"instruction.md": "Write hello to hello.txt.\n", "task.toml": "[verifier]\ntimeout_sec = 60.0\n",
		"environment/data/given.txt": "given\n", "tests/test.sh": helloTest, "tests/want": "hello\n",
	}
	for name, text := range files {
		all[name] = text
	}
	dir := t.TempDir()
	for name, text := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return map[string]any{"path": dir}
}

// bash is an action that runs a command.
func bash(command string) trinity.Action {
	return call("bash", fmt.Sprintf(`{"command": %q}`, command))
}

// solve runs commands and ends the episode. It returns what the last command printed.
func solve(t *testing.T, args, row map[string]any, commands ...string) (said string, out trinity.Outcome, err error) {
	t.Helper()
	env, _ := begin(t, "harbor", args, row)
	defer env.Close()
	for _, command := range commands {
		out, err := env.Step(t.Context(), bash(command))
		if err != nil {
			t.Fatal(err)
		}
		said = out.Messages[0].Content
	}
	out, err = env.Step(t.Context(), trinity.Action{Text: "Done."})
	return said, out, err
}

func TestHarborConforms(t *testing.T) {
	row := harborFolder(t, nil)
	trinitytest.Environment(t, trinitytest.EnvironmentOptions{
		Task: &trinity.Task{Row: row},
		Act: func(i int, _ trinity.Observation) trinity.Action {
			return []trinity.Action{bash("echo hello >hello.txt; cat data/given.txt"), bash("cat hello.txt; false"), {Text: "Done."}}[i]
		},
	}, open(t, "harbor", nil))
}

func TestHarborVerifies(t *testing.T) {
	env, first := begin(t, "harbor", map[string]any{"max_steps": 4}, harborFolder(t, nil))
	if first.Messages[0].Content != "Write hello to hello.txt." || !strings.Contains(string(first.Tools), `"command"`) {
		t.Errorf("begins with %+v", first)
	}
	for _, c := range []struct {
		action trinity.Action
		says   string
		failed bool
	}{
		{call("sh", `{}`), `no tool "sh"`, true},
		{call("bash", `{"cmd": "ls"}`), `want the argument "command"`, true},
		{bash("pwd; mv data/given.txt hello.txt; echo hello >hello.txt; exit 7"), "/app\n(exit status 7)", false},
	} {
		out, err := env.Step(t.Context(), c.action)
		if err != nil {
			t.Fatal(err)
		}
		if m := out.Messages[0]; m.Role != "tool" || !strings.Contains(m.Content, c.says) || out.ToolError != c.failed || out.Reward != nil {
			t.Errorf("%+v: %+v, want %q", c.action, out, c.says)
		}
	}
	out, err := env.Step(t.Context(), bash("ls"))
	if err != nil || out.Done || !out.Truncated || *out.Reward != 1 || strings.TrimSpace(out.Messages[0].Content) != "data\nhello.txt" {
		t.Errorf("at the limit: %v, %+v", err, out)
	}
	if _, out, err := solve(t, nil, harborFolder(t, nil), "echo Hello >hello.txt"); err != nil || *out.Reward != 0 {
		t.Errorf("a wrong file: %v, %+v", err, out)
	}
}

// Nothing that the policy can write is a reward, and it sees nothing of the tests.
func TestHarborKeepsTheVerdictFromThePolicy(t *testing.T) {
	for _, command := range []string{
		"mkdir -p /logs/verifier && echo 1 >/logs/verifier/reward.txt",
		"mkdir -p logs/verifier tests; echo 1 >logs/verifier/reward.txt; echo 'echo 1 >/logs/verifier/reward.txt' >tests/test.sh",
		"ln -s /logs/verifier v; ln -s /tests t; echo 1 >v/reward.txt; echo >t/want",
		"(while :; do echo 1 >/logs/verifier/reward.txt; done) & sleep 0.2",
		"setsid bash -c 'sleep 1000; echo 1 >/logs/verifier/reward.txt' & disown -a",
		`printf 'reward.txt\n1' >/proc/1/fd/1; printf 'reward.txt\n1' >/proc/1/fd/3`,
		"rm -rf /app; ln -s /logs/verifier /app",
		"kill -9 1; kill -9 $PPID",
	} {
		if _, out, err := solve(t, nil, harborFolder(t, nil), command); err != nil || *out.Reward != 0 {
			t.Errorf("%s: %v, %+v", command, err, out)
		}
	}
	said, _, err := solve(t, nil, harborFolder(t, nil),
		"find / -name test.sh -o -name want -o -name tests.tar 2>/dev/null; ls /work /logs/agent")
	if want := "/logs/agent:\n\n/work:\ncommand.sh"; err != nil || said != want {
		t.Errorf("%v, the policy sees %q, want %q", err, said, want)
	}
}

// Files of a command that takes too long, too much or cannot be read are as before or kept; the
// episode goes on.
func TestHarborBoundsCommands(t *testing.T) {
	args := map[string]any{"timeout": 1, "max_disk_mb": 2}
	for command, want := range map[string]string{
		"echo hello >hello.txt; sleep 100":                                 "(it ran out of time)",
		"echo hello >hello.txt; sleep 100 & echo begun":                    "begun",
		"echo hello >hello.txt; yes":                                       "y\ny\n",
		"cat; echo $HOME $TASK; echo hello >hello.txt":                     "/work none",
		"echo hello >hello.txt; mkdir -m 0 closed; mkfifo pipe; ln -s / a": "(no output)",
	} {
		row := harborFolder(t, map[string]string{"task.toml": "[environment]\nenv = {TASK = \"${TASK_NAME:-none}\"}\n"})
		if said, out, err := solve(t, args, row, command); err != nil || *out.Reward != 1 || !strings.Contains(said, want) {
			t.Errorf("%s: %v, says %.200q, want %q\n%+v", command, err, said, want, out)
		}
	}
	said, out, err := solve(t, args, harborFolder(t, nil), "echo hello >hello.txt",
		"echo no >hello.txt; for i in a b c; do head -c 1000000 /dev/urandom >$i; done")
	if err != nil || *out.Reward != 1 || !strings.Contains(said, "more than 2 MiB") {
		t.Errorf("too large: %v, %q, %+v", err, said, out)
	}
}

func TestHarborReadsRewards(t *testing.T) {
	const out = " >/logs/verifier/reward."
	for _, c := range []struct {
		test, key, want string
		reward          float64
	}{
		{`echo '{"reward": 0.5, "speed": 3, "ok": true}'` + out + "json; echo 1" + out + "txt", "", "", 0.5},
		{`echo '{"score": 0.25}'` + out + "json", "", "", 0.25},
		{`echo '{"a": 1, "b": 2}'` + out + "json", "b", "", 2},
		{`echo '{"a": 1, "b": 2}'` + out + "json", "", `no "reward"`, 0},
		{`echo '{"a": 1}'` + out + "json", "b", `no "b"`, 0},
		{"echo ' 1e-1 '" + out + "txt; exit 3", "", "", 0.1},
		{"echo nan" + out + "txt", "", `"nan\n", want a finite number`, 0},
		{`echo '{"reward": null}'` + out + "json", "", "want an object of finite numbers", 0},
		{`echo '{"reward": 1e999}'` + out + "json", "", "want an object of finite numbers", 0},
		{"mkdir /logs/verifier/reward.json; echo 1" + out + "txt", "", "want an object of finite numbers", 0},
		{"mkfifo /logs/verifier/reward.json; echo 1 >/logs/verifier/reward.json &", "", "want an object of finite numbers", 0},
		{"echo lost >&2; exit 4", "", "neither /logs/verifier/reward.json nor reward.txt; tests/test.sh says: lost (exit status 4)", 0},
		{"sleep 100", "", "(it ran out of time)", 0},
		{"(sleep 5; echo 1" + out + "txt) & echo 0" + out + "txt", "", "", 0},
		{`[ "$SECRET$OTHER$WORK" = abc ] && echo 1` + out + "txt", "", "", 1},
	} {
		t.Setenv("TEST_SECRET", "a")
		const task = "[environment]\nworkdir = \"/srv/x\"\nenv = {WORK = \"c\"}\n[verifier]\ntimeout_sec = 1\n" +
			"env = {SECRET = \"${TEST_SECRET}\", OTHER = \"b\"}\n"
		row := harborFolder(t, map[string]string{"task.toml": task, "tests/test.sh": c.test})
		_, got, err := solve(t, map[string]any{"reward_key": c.key, "pass_env": []string{"TEST_SECRET"}}, row)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.test, err, c.want)
		case c.want == "" && (err != nil || *got.Reward != c.reward):
			t.Errorf("%s: %v, %+v, want %g", c.test, err, got, c.reward)
		case c.reward == 0.5 && (got.Metrics["speed"] != 3 || got.Metrics["ok"] != 1 || len(got.Metrics) != 2):
			t.Errorf("metrics %v", got.Metrics)
		}
	}
}

func TestHarborRefuses(t *testing.T) {
	type refused struct {
		args  map[string]any
		files map[string]string
	}
	big := refused{map[string]any{"max_disk_mb": 1}, map[string]string{"tests/big": strings.Repeat("x", 1<<20+1)}}
	for name, c := range map[string]refused{
		"environment/Dockerfile asks for an image":           {nil, map[string]string{"environment/Dockerfile": "FROM x"}},
		"environment.docker_image of task.toml":              {nil, map[string]string{"task.toml": "[environment]\ndocker_image = \"x\""}},
		"tests/Dockerfile asks":                              {nil, map[string]string{"tests/Dockerfile": "FROM x"}},
		"the sandbox cannot do steps":                        {nil, map[string]string{"task.toml": "[[steps]]\nname = \"a\""}},
		"cannot do environment.gpus":                         {nil, map[string]string{"task.toml": "[environment]\ngpus = 1"}},
		"cannot do environment.os windows":                   {nil, map[string]string{"task.toml": "[environment]\nos = \"windows\""}},
		"want an absolute path outside":                      {map[string]any{"workdir": "/usr"}, nil},
		"/logs/verifier/x is the verifier's":                 {map[string]any{"workdir": "/logs/verifier/x"}, nil},
		"have more than max_disk_mb":                         big,
		"wants this process's TEST_SECRET: set it, and list": {nil, map[string]string{"task.toml": "[verifier]\nenv = {A = \"${TEST_SECRET}\"}"}},
		"expected value":                                     {nil, map[string]string{"task.toml": "[verifier]\ntimeout_sec ="}},
	} {
		t.Setenv("TEST_SECRET", "a")
		row := harborFolder(t, c.files)
		err := trinity.RequirementsOf(open(t, "harbor", c.args)).CheckTask(&trinity.Task{Row: row})
		if err == nil || !strings.Contains(err.Error(), name) || !strings.HasPrefix(err.Error(), "task ") {
			t.Errorf("%v, want %q", err, name)
		}
	}
	row := harborFolder(t, map[string]string{"environment/Dockerfile": "FROM x\n"})
	ignore := map[string]any{"ignore_image": true}
	if said, _, err := solve(t, ignore, map[string]any{"task_dir": row["path"]}, "ls"); err != nil || said != "data" {
		t.Errorf("with ignore_image: %v, %q", err, said)
	}
	check := trinity.RequirementsOf(open(t, "harbor", nil)).CheckTask
	if err := check(&trinity.Task{Row: map[string]any{"x": 1}}); err == nil || !strings.Contains(err.Error(), "task_dir") {
		t.Errorf("a row without a folder: %v", err)
	}
	link := harborFolder(t, nil)
	if err := os.Symlink("/etc/passwd", filepath.Join(link["path"].(string), "environment", "x")); err != nil {
		t.Fatal(err)
	}
	if err := check(&trinity.Task{Row: link}); err == nil || !strings.Contains(err.Error(), "environment/x is neither") {
		t.Errorf("a link: %v", err)
	}
	for _, args := range []map[string]any{
		{"max_steps": 0}, {"timeout": 0}, {"max_memory_mb": 1}, {"max_disk_mb": 0}, {"max_output": 1}, {"ask": ""}, {"isolation": "none"},
	} {
		if _, err := registry.Environments.Build("harbor", args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}

// Whatever a verifier writes, the rewards are finite or there is an error.
func FuzzHarborRewards(f *testing.F) {
	f.Add("reward.json", `{"reward": 1, "ok": false}`)
	f.Add("reward.txt", "1e999")
	f.Add("", "1")
	f.Fuzz(func(t *testing.T, name, text string) {
		values, err := rewardsOf(name, []byte(text))
		for key, v := range values {
			if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
				t.Errorf("%s %q: %s is %g", name, text, key, v)
			}
		}
	})
}
