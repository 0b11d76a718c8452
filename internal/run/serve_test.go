package run_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trinity-go/trinity/internal/rundir"
)

// completion returns a server's answer to one question, and the version of the weights that gave
// it.
func completion(t *testing.T, port, key string) (status int, text string, version int64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:"+port+"/v1/chat/completions",
		strings.NewReader(`{"messages":[{"role":"user","content":"max 3 5"}],"temperature":0,"max_tokens":4}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error(), 0
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var reply struct {
		Choices []struct {
			Message  struct{ Content string }
			Versions [2]int64
		}
	}
	if json.Unmarshal(data, &reply) != nil || len(reply.Choices) != 1 {
		return resp.StatusCode, string(data), 0
	}
	return resp.StatusCode, reply.Choices[0].Message.Content, reply.Choices[0].Versions[1]
}

// serving is due when a server answers with weights of a version or a later one.
func serving(t *testing.T, port, key string, version int64) func() bool {
	return func() bool {
		time.Sleep(10 * time.Millisecond)
		status, _, v := completion(t, port, key)
		return status == http.StatusOK && v >= version
	}
}

// Mode serve loads the weights of the run's trainer, and does not count as an explorer. Without a
// key it refuses to listen to other machines.
func TestServeFollowsTheTrainer(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	const key = "the key of the test"
	port := freePort(t)
	mode := []string{"mode=serve", "explorer.proxy_port=" + port}
	p.start(t, nil, mode...).fails(t, "explorer.listen_address", "other machines can reach 0.0.0.0", "set TRINITY_TOKEN")

	p.start(t, []string{"TRINITY_TOKEN=short"}, mode...).fails(t, "explorer.listen_address", "a token of 5 characters", "openssl rand -hex 16")
	p.start(t, []string{"TRINITY_TOKEN=short"}, append(slices.Clone(training), "trainer.listen_address=0.0.0.0:0")...).
		fails(t, "trainer.listen_address", "a token of 5 characters", "openssl rand -hex 16")

	token := []string{"TRINITY_TOKEN=" + key}
	trainer := p.start(t, token, training...)
	if !trainer.await(t, p.appears("trainer.json")) {
		t.Fatal("the trainer has ended")
	}
	server := p.start(t, token, mode...)
	if !server.await(t, serving(t, port, key, 0)) {
		t.Fatal("the server has ended")
	}
	p.start(t, token, exploring...).finish(t)
	trainer.finish(t)
	if !server.await(t, serving(t, port, key, 8)) {
		t.Fatal("the server has ended")
	}
	if status, text, _ := completion(t, port, "another"); status != http.StatusUnauthorized || !strings.Contains(text, "invalid_api_key") {
		t.Errorf("another key: %d %s", status, text)
	}
	_, followed, _ := completion(t, port, key)
	if err := server.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-server.done

	// The trainer has ended: a server takes the weights of its last checkpoint, which are those
	// that it published last.
	again := p.start(t, nil, append(mode, "explorer.listen_address=127.0.0.1")...)
	if !again.await(t, serving(t, port, "", 0)) {
		t.Fatal("the server has ended")
	}
	if _, text, _ := completion(t, port, ""); text != followed {
		t.Errorf("the weights of the checkpoint say %q, those that were followed %q", text, followed)
	}
	if err := again.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-again.done
}

// Requests call a served adapter by the same name, whichever checkpoint it is from.
func TestAServedAdapterKeepsItsName(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	adapter := "model.lora_configs=[{lora_rank: 4}]"
	names := map[string]bool{}
	for range 2 {
		port := freePort(t)
		server := p.start(t, nil, adapter, "mode=serve", "explorer.proxy_port="+port, "explorer.listen_address=127.0.0.1")
		if !server.await(t, serving(t, port, "", 0)) {
			t.Fatal("the server has ended")
		}
		resp, err := http.Get("http://127.0.0.1:" + port + "/v1/models")
		if err != nil {
			t.Fatal(err)
		}
		var list struct{ Data []struct{ ID string } }
		err = errors.Join(json.NewDecoder(resp.Body).Decode(&list), resp.Body.Close(), server.cmd.Process.Kill())
		if err != nil || len(list.Data) == 0 {
			t.Fatal(list, err)
		}
		<-server.done
		names[list.Data[0].ID] = true
		p.start(t, nil, adapter).finish(t) // the second time serves its checkpoint
	}
	if len(names) != 1 {
		t.Errorf("the adapter is called %v", names)
	}
}

// A run that only made worse what another one wrote serves that.
func TestServesTheModelHandedOn(t *testing.T) {
	t.Parallel()
	p := newProject(t, tiny, rl)
	if _, err := p.run(t, "buffer.total_steps=1", noEvaluation); err != nil {
		t.Fatal(err)
	}
	began := "model.model_path=" + filepath.Join(p.job(), "global_step_1")
	if _, err := p.run(t, "buffer.total_steps=1", noEvaluation, began, "name=worse"); err != nil {
		t.Fatal(err)
	}
	known := `{"metric": "m", "evaluations": [{"version": 0, "value": 0.9}, {"version": 1, "value": 0.5}]}`
	if err := os.WriteFile(filepath.Join(filepath.Dir(p.job()), "worse", rundir.BestFile), []byte(known), 0o644); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	server := p.start(t, nil, began, "name=worse", "mode=serve", "explorer.proxy_port="+port, "explorer.listen_address=127.0.0.1")
	if !server.await(t, serving(t, port, "", 0)) {
		t.Fatal("the server has ended")
	}
	if err := server.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-server.done
}

// Mode colocate has the bits of mode both.
func TestColocateIsBoth(t *testing.T) {
	t.Parallel()
	both, colocated := newProject(t, tiny, rl), newProject(t, tiny, rl)
	if _, err := both.run(t); err != nil {
		t.Fatal(err)
	}
	if _, err := colocated.run(t, "mode=colocate"); err != nil {
		t.Fatal(err)
	}
	results(t, colocated.dir).sameAs(t, results(t, both.dir))
}
