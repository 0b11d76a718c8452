package cli_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
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

// trainingService is a trinity service that runs in a process of its own.
type trainingService struct {
	address string
	cmd     *exec.Cmd
}

func openService(t *testing.T, dir, model string) *trainingService {
	t.Helper()
	s := &trainingService{cmd: exec.CommandContext(t.Context(), "trinity", "service", "--dir", dir, "--model", model, "--addr", "127.0.0.1:0",
		"--max-model-len", "192")}
	said, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // it ends its runs
		_ = s.cmd.Process.Signal(os.Interrupt)
		_ = s.cmd.Wait()
	})
	in := bufio.NewScanner(said)
	for in.Scan() && s.address == "" {
		if found := regexp.MustCompile(`^serves at (http://\S+):`).FindStringSubmatch(in.Text()); found != nil {
			s.address = found[1] + "/v1/"
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return s
		}
	}
	t.Fatal("the service does not begin")
	return nil
}

func (s *trainingService) kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// ask sends a request and decodes the reply, which must be a good one.
func (s *trainingService) ask(t *testing.T, method, path, kind string, body []byte) (reply map[string]any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.address+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", kind)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&reply); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %d %v, %v", method, path, resp.StatusCode, reply, err)
	}
	return reply
}

// until waits until a job has a status, and a metric of at least so many steps.
func (s *trainingService) until(t *testing.T, id, status string, step float64) map[string]any {
	t.Helper()
	for t.Context().Err() == nil {
		j := s.ask(t, "GET", "fine_tuning/jobs/"+id, "", nil)
		at := -1.0
		for _, e := range s.ask(t, "GET", "fine_tuning/jobs/"+id+"/events", "", nil)["data"].([]any) {
			if metrics, ok := e.(map[string]any)["data"].(map[string]any); ok {
				at = max(at, metrics["step"].(float64))
			}
		}
		if j["status"] == status && at >= step {
			return j
		}
		if s := j["status"]; s == "failed" || s == "succeeded" {
			t.Fatalf("the job is %v, want %s: %v", s, status, j["error"])
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal(t.Context().Err())
	return nil
}

// A job that is paused, resumed and killed with its service ends with the same bytes as an undisturbed one.
func TestFineTuningJobsGoOn(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no signals to send to a process")
	}
	dir, model := filepath.Join(t.TempDir(), "service"), "org/tiny="+filepath.Join(tiny(t), "model")
	s := openService(t, dir, model)
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	if err := w.WriteField("purpose", "fine-tune"); err != nil {
		t.Fatal(err)
	}
	rows, err := w.CreateFormFile("file", "rows.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		fmt.Fprintf(rows, `{"messages":[{"role":"user","content":"%d+1"},{"role":"assistant","content":"%d"}]}`+"\n", i, i+1)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := s.ask(t, "POST", "files", w.FormDataContentType(), form.Bytes())["id"]
	order := fmt.Appendf(nil, `{"model": "org/tiny", "training_file": %q, "seed": 3, "method": {"type": "supervised", "supervised":
		{"hyperparameters": {"n_epochs": 8, "batch_size": 1}}}}`, file)
	begin := func() string { return s.ask(t, "POST", "fine_tuning/jobs", "application/json", order)["id"].(string) }
	weights := func(id string) []byte {
		t.Helper()
		name := filepath.Join(dir, "finetune", "jobs", id, "run", "global_step_400", "actor", "lora_adapter", "adapter_model.safetensors")
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	whole := begin()
	disturbed := begin()
	done := s.until(t, whole, "succeeded", 400)
	s.until(t, disturbed, "running", 30)
	s.ask(t, "POST", "fine_tuning/jobs/"+disturbed+"/pause", "application/json", nil)
	s.until(t, disturbed, "paused", 30)
	if _, err := os.Stat(filepath.Join(dir, "finetune", "jobs", disturbed, "run", "latest_checkpointed_iteration.txt")); err != nil {
		t.Error("a paused job has no checkpoint: ", err)
	}
	s.ask(t, "POST", "fine_tuning/jobs/"+disturbed+"/resume", "application/json", nil)
	s.until(t, disturbed, "running", 90)
	s.kill()
	s = openService(t, dir, model)
	j := s.until(t, disturbed, "succeeded", 400)
	if !bytes.Equal(weights(whole), weights(disturbed)) {
		t.Error("the weights of the disturbed job differ")
	}
	if j["trained_tokens"] != done["trained_tokens"] || !strings.HasPrefix(fmt.Sprint(j["fine_tuned_model"]), "ft:org/tiny::") {
		t.Errorf("%v, want %v", j, done)
	}
	chat := fmt.Appendf(nil, `{"model": %q, "messages": [{"role": "user", "content": "4+1"}], "max_tokens": 8}`, j["fine_tuned_model"])
	if reply := s.ask(t, "POST", "chat/completions", "application/json", chat); reply["model"] != j["fine_tuned_model"] {
		t.Errorf("%v", reply)
	}
}

// The examples run, with the official client and a tiny model under the name of theirs.
func TestFineTuningWithTheOfficialClient(t *testing.T) {
	python := os.Getenv("TRINITY_COMPAT_PYTHON")
	if python == "" {
		t.Skip("TRINITY_COMPAT_PYTHON names no Python that has openai")
	}
	if err := exec.CommandContext(t.Context(), python, "-c", "import openai").Run(); err != nil {
		t.Skip("this Python has no openai")
	}
	s := openService(t, filepath.Join(t.TempDir(), "service"), "HuggingFaceTB/SmolLM2-135M-Instruct="+filepath.Join(tiny(t), "model"))
	for _, script := range []string{"../../examples/finetuning/supervised.py", "../../examples/finetuning/dpo.py",
		"../../examples/finetuning/reinforcement.py", "testdata/finetune.py"} {
		cmd := exec.CommandContext(t.Context(), python, script)
		cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+s.address, "OPENAI_API_KEY=tml-local", "PYTHONDONTWRITEBYTECODE=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", script, err, out)
		}
	}
}
