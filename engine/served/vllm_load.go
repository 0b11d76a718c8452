package served

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/retry"
	"github.com/trinity-go/trinity/internal/wire/files"
	"github.com/trinity-go/trinity/internal/wire/openai"
)

// load implements endpoint.
func (s *vllmServer) load(ctx context.Context, dir, name string, asleep bool) error {
	replace, err := s.replacing(ctx, dir, name)
	if err != nil {
		return err
	}
	return s.change(ctx, asleep, replace)
}

// change replaces the weights of a paused server, and drops what the old ones have computed. A server that
// sleeps is paused until its cache is awake.
func (s *vllmServer) change(ctx context.Context, asleep bool, replace func() error) error {
	whole := func() error {
		if err := replace(); err != nil {
			return err
		}
		return s.forget(ctx)
	}
	if asleep {
		return whole()
	}
	return s.whilePaused(ctx, struct{}{}, whole) // requests in flight go on afterwards
}

// replacing returns how the weights of a server that samples nothing are replaced.
func (s *vllmServer) replacing(ctx context.Context, dir, name string) (func() error, error) {
	config, _ := s.config(ctx) // a server that is not in development mode refuses what follows
	switch {
	case config.Transfer.Backend == filesBackend:
		offer, err := s.kind.files.offer(ctx, dir, name, s.client.BaseURL)
		return func() error { return s.transfer(ctx, &offer) }, err
	case s.keepsHead(&config):
		return nil, errors.New("vLLM on a CPU goes on with the old head when it loads a model whose head is the embedding " +
			"(tie_word_embeddings): " + withPlugIn + ", or train an adapter, model.lora_configs")
	}
	return func() error { return s.reload(ctx, dir, name) }, nil
}

// withPlugIn says how a server is started that fetches files.
const withPlugIn = "install trinity_worker beside vLLM and start it with --weight-transfer-config '{\"backend\": \"" + filesBackend + "\"}'"

// filesBackend is the backend of vLLM's weight transfer that the package trinity_worker brings.
const filesBackend = "trinity_files"

// keepsHead reports whether a server that reloads a model would sample with its old head. On a CPU vLLM
// 0.32 packs a copy of each matrix; a reload packs a head anew only if the head is not the embedding.
func (s *vllmServer) keepsHead(c *vllmConfig) bool { return s.kind.tied && c.Device.Device == "cpu" }

// fetches implements fetcher.
func (s *vllmServer) fetches(ctx context.Context) bool {
	config, err := s.config(ctx)
	return err == nil && !s.lora && config.Transfer.Backend == filesBackend
}

// vllmConfig is how a server was started.
type vllmConfig struct {
	Device struct {
		Device string
	} `json:"device_config"`
	Transfer struct {
		Backend string
	} `json:"weight_transfer_config"`
	Model struct {
		DType string
		Model string // its path or name
	} `json:"model_config"`
	Parallel struct {
		Tensor   int `json:"tensor_parallel_size"`
		Pipeline int `json:"pipeline_parallel_size"`
		Data     int `json:"data_parallel_size"`
	} `json:"parallel_config"`
	LoRA *struct {
		MaxRank int   `json:"max_lora_rank"`
		Mixed   *bool `json:"enable_mixed_moe_lora_format"`
	} `json:"lora_config"`
}

// config asks a server how it was started, which it tells in development mode.
func (s *vllmServer) config(ctx context.Context) (vllmConfig, error) {
	var info struct {
		Config vllmConfig `json:"vllm_config"`
	}
	err := s.client.Call(ctx, "/server_info?config_format=json", nil, &info)
	return info.Config, err
}

// loraFlags start a server that takes adapters.
const loraFlags = "start it with --enable-lora, and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment"

// mixedFlag starts a server that takes adapters of experts as PEFT stores them. Otherwise vLLM expects tensors of each expert for
// families such as qwen3_moe.
const mixedFlag = "--enable-mixed-moe-lora-format"

// findAdapters finds out whether the server takes adapters, and how large ones.
func (s *vllmServer) findAdapters(ctx context.Context) error {
	err := s.client.Call(ctx, loadAdapter, struct{}{}, nil) // which names no adapter
	switch {
	case retry.IsTemporary(err) && statusOf(err) == 0:
		return err
	case statusOf(err) == http.StatusNotFound:
		s.info.noLoRA = loraFlags
		return nil
	}
	info, err := s.config(ctx)
	switch {
	case err != nil: // not in development mode
	case info.LoRA == nil:
		s.info.noLoRA = loraFlags
	case s.kind.experts && info.LoRA.Mixed != nil && !*info.LoRA.Mixed:
		s.info.noLoRA = "adapters of experts need " + mixedFlag + ": start it with that"
	default:
		s.info.rank = info.LoRA.MaxRank
	}
	return nil
}

// loadAdapter is the endpoint that gives the server an adapter.
const loadAdapter = "/v1/load_lora_adapter"

// resumeIfPaused implements pausable.
func (s *vllmServer) resumeIfPaused(ctx context.Context) bool {
	var state struct {
		Paused bool `json:"is_paused"`
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := s.client.Call(ctx, "/is_paused", nil, &state)
	return err == nil && state.Paused && s.resumeServer(ctx) == nil
}

// reload replaces the weights of a paused server by those of a directory that it sees.
func (s *vllmServer) reload(ctx context.Context, dir, name string) error {
	call := struct {
		Method string            `json:"method"`
		Kwargs map[string]string `json:"kwargs"`
	}{"reload_weights", map[string]string{"weights_path": dir}}
	if err := s.client.Call(ctx, "/collective_rpc", call, nil); err != nil {
		return err
	}
	return s.client.Call(ctx, "/update_weight_version", map[string]string{"new_version": name}, nil)
}

// transfer lets a paused server fetch its weights, in the phases of vLLM's weight transfer. It checks
// the files before it changes anything.
func (s *vllmServer) transfer(ctx context.Context, o *offer) error {
	init := map[string]any{"url": o.url, "token": s.kind.files.token, "seconds": s.kind.files.seconds}
	if err := s.phase(ctx, "init_weight_transfer_engine", map[string]any{"init_info": init}); err != nil {
		return err
	}
	if err := s.begin(ctx); err != nil {
		return err
	}
	update := struct {
		Digest string       `json:"digest"`
		Files  []files.File `json:"files"`
	}{o.digest, o.list}
	if err := s.phase(ctx, "update_weights", map[string]any{"update_info": update}); err != nil {
		return err
	}
	return s.phase(ctx, "finish_weight_update", map[string]string{"weight_version": o.name})
}

// begin begins an update. A run that was killed may have left one.
func (s *vllmServer) begin(ctx context.Context) error {
	if s.phase(ctx, "start_weight_update", struct{}{}) == nil {
		return nil
	}
	_ = s.phase(ctx, "update_weights", map[string]any{"update_info": struct{}{}}) // brings nothing, which ends the old one
	return s.phase(ctx, "start_weight_update", struct{}{})
}

// phase calls a phase of a transfer.
func (s *vllmServer) phase(ctx context.Context, name string, body any) error {
	if err := s.client.Call(ctx, "/"+name, body, nil); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// release implements endpoint.
func (s *vllmServer) release(ctx context.Context) {
	s.adapters.release(ctx)
	s.kind.files.close()
}

// forget drops what old weights have computed, also for requests in flight.
func (s *vllmServer) forget(ctx context.Context) error {
	query := url.Values{"reset_running_requests": {fmt.Sprint(!s.kind.keep)}}
	var reset struct{ Success bool }
	if err := s.client.Call(ctx, "/reset_prefix_cache?"+query.Encode(), struct{}{}, &reset); err != nil {
		return err
	}
	if !reset.Success && !s.kind.keep {
		return errors.New("it did not drop what the old weights have computed (reset_prefix_cache)")
	}
	return nil
}

// vllmAdapter is what vLLM gets of an adapter.
type vllmAdapter struct {
	Name    string `json:"lora_name"`
	Path    string `json:"lora_path"`
	Stacked bool   `json:"is_3d_lora_weight,omitzero"` // its tensors of experts are stacked
}

// giveAdapter gives the server an adapter.
func (s *vllmServer) giveAdapter(ctx context.Context, dir, name string) error {
	err := s.client.Call(ctx, loadAdapter, vllmAdapter{name, dir, s.kind.experts}, nil)
	if statusOf(err) == http.StatusNotFound {
		return fmt.Errorf("it takes no adapters: %s: %w", loraFlags, err)
	}
	return err
}

// scores implements scorer. vLLM 0.32 with adapters dies of the log-probabilities of a prompt that it
// computes beside another request, at least on a CPU.
func (s *vllmServer) scores(alone bool) bool { return alone || !s.lora }

// score implements scorer.
func (s *vllmServer) score(ctx context.Context, tokens []int32) ([]float32, error) {
	q := &query{prompt: tokens, adapter: s.lora, SamplingParams: trinity.SamplingParams{MaxTokens: 1, Temperature: 1}}
	r := q.completion()
	r.Model, r.Logprobs, r.PromptLogprobs = s.name(q), nil, new(0)
	var reply openai.Response
	if err := s.client.Call(ctx, "/v1/completions", &r, &reply); err != nil {
		return nil, err
	}
	if len(reply.Choices) != 1 || len(reply.Choices[0].PromptLogprobs) != len(tokens) {
		return nil, errors.New("it returns no log-probabilities of the prompt's tokens (prompt_logprobs)")
	}
	logprobs := make([]float32, 0, len(tokens)-1)
	for i, at := range reply.Choices[0].PromptLogprobs[1:] {
		l := at[strconv.Itoa(int(tokens[i+1]))]
		if l.Logprob == nil {
			return nil, fmt.Errorf("it returns no log-probability of token %d of the prompt", i+1)
		}
		logprobs = append(logprobs, *l.Logprob)
	}
	return logprobs, nil
}

// sleep implements sleeper. Level 1 keeps the weights in host memory, for a server that wakes without new
// ones. A request that its client has given up may still run, and is aborted.
func (s *vllmServer) sleep(ctx context.Context) error {
	return s.client.Call(ctx, "/sleep?level=1&mode=abort", struct{}{}, nil)
}

// wake implements sleeper.
func (s *vllmServer) wake(ctx context.Context, p part) error {
	var reply struct{ Status string }
	if err := s.client.Call(ctx, "/wake_up?"+url.Values{"tags": {string(p)}}.Encode(), struct{}{}, &reply); err != nil {
		return err
	}
	if p == partCache && reply.Status != "awake" {
		return fmt.Errorf("it says that it is %q", reply.Status)
	}
	return nil
}

// digests implements digester.
func (s *vllmServer) digests(ctx context.Context) (map[string]string, error) {
	var reply struct{ Checksums map[string]string }
	err := s.client.Call(ctx, "/weight_checker", map[string]string{"action": "checksum"}, &reply)
	return reply.Checksums, err
}

// reset implements resetter.
func (s *vllmServer) reset(ctx context.Context) error {
	return s.client.Call(ctx, "/weight_checker", map[string]string{"action": "reset"}, nil)
}
