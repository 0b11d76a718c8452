package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	also "github.com/anthropics/anthropic-sdk-go/option"
	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/run/service"
	server "github.com/trinity-go/trinity/internal/serve/tinker"
	"github.com/trinity-go/trinity/internal/wire/tinker"
	"github.com/trinity-go/trinity/trinitytest"
)

// run runs a service of the model of the quickstart, with random weights, until the test ends, and returns its address. A chat
// template takes the place of the model's own, unless it is "".
func run(t *testing.T, dir, template string) (address string) {
	t.Helper()
	model := quickstart(t, template)
	return running(t, dir, func(o *service.Options) {
		o.Models = []service.Model{{Name: "own/tiny", Path: model}, {Name: "other", Path: model}}
	})
}

// quickstart returns the directory of the model of the quickstart, with random weights.
func quickstart(t *testing.T, template string) (model string) {
	t.Helper()
	trainers, _ := built(t, "cpu")
	random, err := trainers.OpenTrainer(t.Context(), engine.TrainerSpec{
		ModelPath: "../../../examples/quickstart/model", Init: engine.InitSpec{Style: "hf", Seed: 1},
		Train: true, MicroTokens: 32, MaxModelLen: 32,
	})
	if err != nil {
		t.Fatal(err)
	}
	model = filepath.Join(t.TempDir(), "model")
	if err := errors.Join(os.Mkdir(model, 0o755), random.SaveModel(t.Context(), model), random.Close()); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"tokenizer.json", "tokenizer_config.json"} {
		data, err := os.ReadFile(filepath.Join("../../../examples/quickstart/model", file))
		if err == nil {
			err = os.WriteFile(filepath.Join(model, file), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if template != "" {
		if err := os.WriteFile(filepath.Join(model, "chat_template.jinja"), []byte(template), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return model
}

// running runs a service until the test ends, and returns its address.
func running(t *testing.T, dir string, change func(*service.Options)) (address string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	said, ended := make(chan string, 100), make(chan error, 1)
	o := service.Options{
		Dir: dir, Trainer: "cpu", Sampler: "cpu", Address: "127.0.0.1:0", MaxLen: 512, Alpha: 32, Gap: time.Minute,
		Keep: time.Hour, Say: func(line string) { said <- line },
	}
	change(&o)
	go func() { ended <- service.Run(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	for {
		select {
		case line := <-said:
			if rest, ok := strings.CutPrefix(line, "serves at "); ok {
				address, _, _ = strings.Cut(rest, ": ")
				return address
			}
		case err := <-ended:
			ended <- err
			t.Fatal(err)
		}
	}
}

// save trains a model of the service by its key, and returns the path of a checkpoint for samplers.
func save(t *testing.T, address, key string) string {
	t.Helper()
	t.Setenv("TINKER_API_KEY", key)
	c, err := tinker.Open(t.Context(), address, time.Minute, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	all := true
	m, err := c.Train(t.Context(), "own/tiny", tinker.LoRAConfig{Rank: 2, TrainMLP: &all, TrainAttn: &all, TrainUnembed: &all})
	if err != nil {
		t.Fatal(err)
	}
	path, err := m.Save(t.Context(), tinker.SamplerWeights, "w")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// One port answers the Tinker API, and OpenAI's and Anthropic's at two places, with the keys of the service.
func TestOnePortAnswersAllAPIs(t *testing.T) {
	dir := t.TempDir()
	keys := map[string]string{"none": ""}
	for _, name := range []string{"ann", "bob"} {
		key, err := server.AddKey(t.Context(), dir, server.Key{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = key
	}
	address := run(t, dir, "")
	path := save(t, address, keys["ann"])
	chat := func(model string) string {
		return `{"model":"` + model + `","max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`
	}
	for _, c := range []struct {
		key, path, body string
		status          int
		want            string
	}{
		{"none", "/healthz", "", 200, `{"status":"ok"}`},
		{"none", "/metrics", "", 401, "the key is unknown"},
		{"ann", "/metrics", "", 200, `trinity_service_models{key="ann",state="loaded"} 1`},
		{"ann", "/api/v1/get_server_capabilities", "", 200, `"model_name":"own/tiny"`},
		{"ann", "/v1/chat/completions", chat("own/tiny"), 200, `"model":"own/tiny"`},
		{"ann", "/v1/chat/completions", chat("other"), 200, `"model":"other"`},
		{"ann", "/oai/api/v1/chat/completions", chat(path), 200, `"model":"` + path},
		{"bob", "/oai/api/v1/chat/completions", chat(path), 404, `"code":"model_not_found"`},
		{"none", "/oai/api/v1/chat/completions", chat(path), 401, `"code":"invalid_api_key"`},
		{"ann", "/v1/messages", chat(path), 200, `"type":"message"`},
		{"none", "/v1/messages", chat(path), 401, `"type":"authentication_error"`},
		{"ann", "/v1/responses", `{"model":"` + path + `","input":"hi","max_output_tokens":3}`, 200, `"object":"response"`},
		{"ann", "/v1/completions", `{"model":"` + path + `","prompt":"hi","max_tokens":3}`, 200, `"object":"text_completion"`},
		{"ann", "/v1/models", "", 200, `"id":"` + path},
		{"ann", "/oai/api/v1/models/own%2Ftiny", "", 200, `"id":"own/tiny"`},
		{"bob", "/v1/models", "", 200, `"id":"other","object":"model","owned_by":"trinity"}],`},
		{"ann", "/v1/nothing", "", 404, "there is no GET /v1/nothing here"},
		{"ann", "/nothing", "", 404, "there is no call /nothing: "},
	} {
		method := http.MethodPost
		if c.body == "" {
			method = http.MethodGet
		}
		r, err := http.NewRequestWithContext(t.Context(), method, address+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+keys[c.key])
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != c.status || !strings.Contains(string(text), c.want) {
			t.Errorf("%s %s: %d %s, want %d %s", c.key, c.path, resp.StatusCode, text, c.status, c.want)
		}
	}
}

// Clients in Go name a checkpoint as their model, at the place of the hosted service, too.
func TestGoClientsTalkToAService(t *testing.T) {
	dir := t.TempDir()
	key, err := server.AddKey(t.Context(), dir, server.Key{Name: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	address := run(t, dir, "")
	path := save(t, address, key)
	client := sdk.NewClient(option.WithBaseURL(address+"/oai/api/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
	in := sdk.ChatCompletionNewParams{
		Model: path, Messages: []sdk.ChatCompletionMessageParamUnion{sdk.UserMessage("hi")},
		MaxTokens: sdk.Int(4), Temperature: sdk.Float(0),
	}
	whole, err := client.Chat.Completions.New(t.Context(), in)
	if err != nil || whole.Model != path || whole.Usage.CompletionTokens == 0 {
		t.Fatal(whole, err)
	}
	stream, all := client.Chat.Completions.NewStreaming(t.Context(), in), sdk.ChatCompletionAccumulator{}
	for stream.Next() {
		all.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil || all.Choices[0].Message.Content != whole.Choices[0].Message.Content {
		t.Errorf("%v, %q and %q", err, all.Choices[0].Message.Content, whole.Choices[0].Message.Content)
	}
	if m, err := client.Models.Get(t.Context(), path); err != nil || m.ID != path {
		t.Errorf("%v, %v", m, err)
	}
	in.Model = path + "x"
	_, err = client.Chat.Completions.New(t.Context(), in)
	if refused := (*sdk.Error)(nil); !errors.As(err, &refused) || refused.StatusCode != 404 || refused.Code != "model_not_found" {
		t.Errorf("%v", err)
	}
	claude := anthropic.NewClient(also.WithBaseURL(address), also.WithAPIKey(key), also.WithMaxRetries(0))
	message, err := claude.Messages.New(t.Context(), anthropic.MessageNewParams{
		Model: path, MaxTokens: 4, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("hi"))},
	})
	if err != nil || message.Usage.OutputTokens == 0 {
		t.Errorf("%v, %v", message, err)
	}
}

// The official clients of OpenAI and Anthropic talk to a base and to a checkpoint.
func TestOfficialClientsTalkToAService(t *testing.T) {
	python := trinitytest.Python(t, "TRINITY_COMPAT_PYTHON", "openai", "anthropic")
	dir := t.TempDir()
	key, err := server.AddKey(t.Context(), dir, server.Key{Name: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	poor, err := server.AddKey(t.Context(), dir, server.Key{Name: "poor", TokensPerHour: 1})
	if err != nil {
		t.Fatal(err)
	}
	address := run(t, dir, "")
	path := save(t, address, key)
	cmd := exec.CommandContext(t.Context(), python, "testdata/clients.py", address, key, poor, path)
	out, err := cmd.CombinedOutput()
	var done []string
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || json.Unmarshal([]byte(lines[len(lines)-1]), &done) != nil || len(done) != 15 {
		t.Errorf("%v: %d calls\n%s", err, len(done), out)
	}
}

// The official clients use all of the dialects: streams, forms, tools, kept responses and refusals.
func TestOfficialClientsSpeakAllDialects(t *testing.T) {
	python := trinitytest.Python(t, "TRINITY_COMPAT_PYTHON", "openai", "anthropic", "pydantic")
	dir := t.TempDir()
	key, err := server.AddKey(t.Context(), dir, server.Key{Name: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	hermes, err := os.ReadFile("testdata/hermes.jinja")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), python, "testdata/dialects.py", run(t, dir, string(hermes)), key, "other").CombinedOutput()
	var done []string
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err != nil || json.Unmarshal([]byte(lines[len(lines)-1]), &done) != nil || len(done) != 74 {
		t.Errorf("%v: %d calls\n%s", err, len(done), out)
	}
}
