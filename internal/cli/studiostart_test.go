package cli_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// studioAt is a studio that runs in a process of its own.
type studioAt struct {
	address, token string
	cmd            *exec.Cmd
}

// openStudio starts a studio of the runs below a directory.
func openStudio(t *testing.T, dir string, flags ...string) *studioAt {
	t.Helper()
	s := &studioAt{cmd: exec.CommandContext(t.Context(), "trinity", append([]string{"studio", "--dir", dir, "--port", "0"}, flags...)...)}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	line, err := bufio.NewReader(out).ReadString('\n')
	found := regexp.MustCompile(`at (http://[^/]+/)(?:#token=(\w+))? `).FindStringSubmatch(line)
	if err != nil || found == nil {
		t.Fatalf("%v: %q", err, line)
	}
	s.address, s.token = found[1], found[2]
	return s
}

func (s *studioAt) end() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// ask sends a request, with a body if there is one, and decodes the reply.
func (s *studioAt) ask(t *testing.T, path string, body any) (status int, reply map[string]any) {
	t.Helper()
	method, in := http.MethodGet, io.Reader(nil)
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		method, in = http.MethodPost, strings.NewReader(string(text))
	}
	r, err := http.NewRequestWithContext(t.Context(), method, s.address+"api/v1/"+path, in)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+s.token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, reply
}

// until asks for a run until it is in a state, and has made a step.
func (s *studioAt) until(t *testing.T, state string, step float64) map[string]any {
	t.Helper()
	var reply map[string]any
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		_, reply = s.ask(t, "runs/cli%2Fsft", nil)
		if at, ok := reply["step"].(float64); ok && at >= step && reply["state"] == state {
			return reply
		}
	}
	_, log := s.ask(t, "runs/cli%2Fsft/log", nil)
	t.Fatalf("the run is not %s at step %v: %v\n%v", state, step, reply, log["text"])
	return nil
}

// A run that the studio has started outlives it. The next studio finds the run and stops it with a
// checkpoint, from which it resumes.
func TestStudioStartsStopsAndResumes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals to send to a process")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	quickstart, err := filepath.Abs("../../examples/quickstart")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/sft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	config := strings.NewReplacer("checkpoint_root_dir: ./checkpoints\n", "", "model_path: model", "model_path: "+quickstart+"/model",
		"path: sft.jsonl", "path: "+quickstart+"/data/sft.jsonl", "total_steps: 2", "total_steps: 1000000").Replace(string(text))
	s := openStudio(t, dir)
	status, reply := s.ask(t, "config/plan", map[string]any{"text": config})
	if status != 200 || !strings.Contains(fmt.Sprint(reply["text"]), "memory") {
		t.Errorf("the plan is %d %v", status, reply)
	}
	if status, reply := s.ask(t, "runs", map[string]any{"text": config}); status != 200 || reply["id"] != "cli/sft" {
		t.Fatalf("%d %v", status, reply)
	}
	s.until(t, "running", 3)
	s.end()

	s = openStudio(t, dir)
	s.until(t, "running", 3)
	if status, reply := s.ask(t, "runs/cli%2Fsft/resume", map[string]any{}); status != 400 {
		t.Errorf("a run at work resumes: %d %v", status, reply)
	}
	if status, reply := s.ask(t, "runs/cli%2Fsft/stop", map[string]any{}); status != 200 {
		t.Fatalf("%d %v", status, reply)
	}
	stopped := s.until(t, "stopped", 3)["step"].(float64)
	newest, err := os.ReadFile(filepath.Join(dir, "cli", "sft", "latest_checkpointed_iteration.txt"))
	if err != nil || strings.TrimSpace(string(newest)) != fmt.Sprint(stopped) {
		t.Errorf("stopped at step %v, with the checkpoint %s, %v", stopped, newest, err)
	}
	if status, reply := s.ask(t, "runs/cli%2Fsft/stop", map[string]any{}); status != 400 {
		t.Errorf("a stopped run stops: %d %v", status, reply)
	}
	if status, reply := s.ask(t, "runs/cli%2Fsft/resume", map[string]any{}); status != 200 {
		t.Fatalf("%d %v", status, reply)
	}
	s.until(t, "running", stopped+1)
	if status, reply := s.ask(t, "runs/cli%2Fsft/stop", map[string]any{}); status != 200 {
		t.Fatalf("%d %v", status, reply)
	}
	s.until(t, "stopped", stopped+1)

	// A run that was started by hand resumes with what it has kept.
	if err := os.RemoveAll(filepath.Join(dir, ".studio")); err != nil {
		t.Fatal(err)
	}
	if status, reply := s.ask(t, "runs/cli%2Fsft/resume", map[string]any{}); status != 200 {
		t.Fatalf("%d %v", status, reply)
	}
	again := s.until(t, "running", stopped+2)["step"].(float64)
	if status, reply := s.ask(t, "runs/cli%2Fsft/stop", map[string]any{"now": true}); status != 200 {
		t.Fatalf("%d %v", status, reply)
	}
	s.until(t, "stopped", again)
}

// All templates are right as they are, and tell the files that are not where the studio was started.
func TestStudioHasTheExamplesAsTemplates(t *testing.T) {
	s := openStudio(t, t.TempDir())
	_, reply := s.ask(t, "config/templates", nil)
	missing := map[string]string{}
	for _, one := range reply["templates"].([]any) {
		of := one.(map[string]any)
		name, doc, text := of["name"].(string), of["doc"].(string), of["text"].(string)
		missing[name] = fmt.Sprint(of["missing"])
		if doc == "" {
			t.Errorf("%s has no doc", name)
		}
		status, checked := s.ask(t, "config/check", map[string]any{"text": text})
		errs, _ := checked["errors"].([]any)
		for _, one := range errs {
			if text := fmt.Sprint(one.(map[string]any)["text"]); !strings.HasSuffix(text, ": no such file or directory") {
				t.Errorf("%s: %s", name, text)
			}
		}
		if status != 200 || missing[name] != "[]" && len(errs) == 0 {
			t.Errorf("%s misses %s, and the check says %d %v", name, missing[name], status, errs)
		}
	}
	configs, err := filepath.Glob("../../examples/*/*.yaml")
	if err != nil || len(missing) < len(configs)-2+5 { // but for two with plug-ins of their own; and five of trinity init
		t.Errorf("%d templates for %d examples, %v", len(missing), len(configs), err)
	}
	const data = "examples/quickstart/data/"
	want := "[" + data + "eval.jsonl " + data + "sft.jsonl " + data + "train.jsonl examples/quickstart/model]"
	if missing["quickstart"] != want || missing["number"] != "[]" {
		t.Errorf("quickstart misses %s, number %s", missing["quickstart"], missing["number"])
	}
}

// The check of a text that is being written names models and data that are not on this machine, at their lines. A name of
// a hub is none of them, nor a file that an earlier stage writes.
func TestStudioNamesWhatIsNotHere(t *testing.T) {
	text, err := os.ReadFile("testdata/sft.yaml")
	if err != nil {
		t.Fatal(err)
	}
	quickstart, err := filepath.Abs("../../examples/quickstart")
	if err != nil {
		t.Fatal(err)
	}
	s := openStudio(t, t.TempDir())
	const model, data = "model.model_path", "buffer.trainer_input.experience_buffer.path"
	here := []string{model + "=" + quickstart + "/model", data + "=" + quickstart + "/data/sft.jsonl"}
	for name, c := range map[string]struct {
		overrides []string
		want      string // keys and lines
	}{
		"both are missing":   {nil, model + ":6 " + data + ":19 "},
		"both are here":      {here, ""},
		"the model is not":   {here[1:], model + ":6 "},
		"the data is not":    {here[:1], data + ":19 "},
		"a name of a hub":    {[]string{model + "=Qwen/Qwen2.5-0.5B-Instruct", data + "=openai/gsm8k"}, ""},
		"a file of the home": {[]string{model + "=/no/such/model.gguf", here[1]}, model + ":0 "},
		"of a stage": {append([]string{
			`stages=[{stage_name: first}, {stage_name: second, buffer: {trainer_input: {experience_buffer: {path: no.jsonl}}}}]`,
		}, here...), "stages.1." + data + ":0 "},
		"of the model of a later stage": {append([]string{`stages=[{stage_name: first}, {stage_name: second}]`}, here...), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, reply := s.ask(t, "config/check", map[string]any{"text": string(text), "overrides": c.overrides})
			got := ""
			for _, one := range reply["errors"].([]any) {
				of := one.(map[string]any)
				got += fmt.Sprintf("%v:%v ", of["key"], of["line"])
				if !strings.HasSuffix(of["text"].(string), ": no such file or directory") {
					t.Errorf("it says %v", of["text"])
				}
			}
			if got != c.want {
				t.Errorf("the check names %q, want %q", got, c.want)
			}
		})
	}
}

func TestStudioThatOnlyShowsHasNoToken(t *testing.T) {
	s := openStudio(t, t.TempDir(), "--read-only")
	if status, reply := s.ask(t, "about", nil); s.token != "" || status != 200 || reply["control"] != false {
		t.Errorf("token %q, %d %v", s.token, status, reply)
	}
	if status, reply := s.ask(t, "runs", map[string]any{"text": ""}); status != 403 {
		t.Errorf("%d %v", status, reply)
	}
}
