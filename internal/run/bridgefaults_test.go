package run_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/trinity-go/trinity"
)

// programFaults are what a program does in place of an answer, in a shell's words.
var programFaults = map[string]string{
	"killed": "kill -9 $$", "hung": "exec sleep 60", "garbage": "echo garbage", "half a line": `printf '{"a": '`,
}

// A bridge whose other side fails is a failure of the environment, at each call of an episode.
func TestFaultsOfBridgesAreTheEnvironments(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("no sh")
	}
	for fault, does := range programFaults {
		for calls := range 3 {
			name, python := fmt.Sprintf("gymnasium %s at call %d", fault, calls), fakePython(t, calls, does)
			breaks(t, name, "gymnasium", "{id: A, python: "+python+"}", true)
		}
		for _, name := range []string{"textworld", "reasoning_gym"} {
			args := "{python: " + fakePython(t, -1, does) + "}"
			if name == "reasoning_gym" {
				args = "{dataset: leg_counting, python: " + fakePython(t, -1, does) + "}"
			}
			breaks(t, name+" "+fault, name, args, false)
		}
		script := filepath.Join(t.TempDir(), "server.sh")
		write(t, script, does)
		breaks(t, "mcp "+fault, "mcp", "{command: [sh, "+script+"]}", false)
	}
	for fault, does := range map[string]func(context.Context, *websocket.Conn){
		"killed": func(_ context.Context, c *websocket.Conn) { c.CloseNow() },
		"hung":   func(ctx context.Context, _ *websocket.Conn) { <-ctx.Done() },
		"garbage": func(ctx context.Context, c *websocket.Conn) {
			_ = c.Write(ctx, websocket.MessageText, []byte("garbage"))
			<-ctx.Done()
		},
		"half a message": func(ctx context.Context, c *websocket.Conn) {
			if w, err := c.Writer(ctx, websocket.MessageText); err == nil {
				_, _ = w.Write([]byte(`{"type": `))
			}
			c.CloseNow()
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if c, err := websocket.Accept(w, r, nil); err == nil {
				defer c.CloseNow()
				does(c.CloseRead(r.Context()), c)
			}
		}))
		t.Cleanup(func() {
			server.CloseClientConnections()
			server.Close()
		})
		breaks(t, "openenv "+fault, "openenv", "{url: "+server.URL+"}", false)
	}
}

// fakePython is an interpreter that has every module. In place of a bridge's script it answers some
// questions as gymnasium's does, and then fails; the first process that is asked answers more.
func fakePython(t *testing.T, answers int, does string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	says := func(answers int) (text string) {
		for _, answer := range []string{`{"space": "Text"}`, `{"observation": "a"}`}[:answers] {
			text += "read -r question\necho '" + answer + "'\n"
		}
		return text
	}
	write(t, path, "#!/bin/sh\ncase \"$2\" in *find_spec*) exit 0 ;; esac\n"+
		"if [ "+fmt.Sprint(answers)+" -ge 0 ] && mkdir "+path+".asked 2>/dev/null; then\n"+says(2)+"exit\nfi\n"+
		says(max(0, answers))+"read -r question\n"+does+"\n")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// breaks expects that all rollouts in an environment fail by it, or the run before
// it begins.
func breaks(t *testing.T, name, environment, args string, began bool) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		p := newProject(t, tiny, rl)
		const taskset = "buffer.explorer_input.taskset."
		limit := 30 // seconds, in which a program answers on a slow machine
		if strings.Contains(name, "hung") {
			limit = 3
		}
		_, err := p.run(t, noEvaluation, "buffer.total_steps=1", "buffer.batch_size=1", "explorer.max_retry_times=0",
			"model.max_prompt_tokens=400",
			"explorer.rollout_model.chat_template='{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}'",
			"explorer.rollout_model.tool_call_parser=hermes",
			"trainer.trainer_config.actor_rollout_ref.actor.ppo_mini_batch_size=4",
			"buffer.explorer_input.default_reward_fn_type=null", taskset+"default_workflow_type=environment_workflow",
			fmt.Sprintf("%sworkflow_args={environment: %s, reset_timeout: %d, step_timeout: %d, environment_args: %s}",
				taskset, environment, limit, limit, args))
		if !began { // the run opens and resets an environment before it loads the model
			oneLine(t, err, "taskset digits: "+filepath.Join(p.dir, "train.jsonl")+":1: environment "+environment+" does not ")
			if exists(filepath.Join(p.job(), "log")) || trinity.KindOf(err, "") != trinity.FailedEnvironment {
				t.Errorf("the run began, or %v is of another kind", err)
			}
			return
		}
		oneLine(t, err, "all 4 rollouts", "environment "+environment+" does not ")
		lines := strings.Split(strings.TrimSpace(read(t, filepath.Join(p.job(), "log", "failed_rollouts.log"))), "\n")
		for _, line := range lines {
			if _, what, _ := strings.Cut(line, " "); !strings.HasPrefix(what, "environment: task digits/") {
				t.Errorf("the log says %q", line)
			}
		}
		if len(lines) != 4 {
			t.Errorf("%d lines, want 4", len(lines))
		}
	})
}
