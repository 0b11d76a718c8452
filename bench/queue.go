package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest/server"
)

const (
	queued     = 10_000 // requests at once
	askedLen   = 64     // tokens of a prompt, more than those that a sampler asks a server when it is opened
	replyAfter = 200 * time.Millisecond
)

// paced is a sampler that computes nothing. It waits until all requests are there, then for a fixed time,
// and returns the same tokens.
type paced struct{ all *barrier }

// Sample implements trinity.Sampler.
func (s paced) Sample(ctx context.Context, prompt trinity.Prompt, p trinity.SamplingParams) ([]trinity.Completion, error) {
	if len(prompt.Tokens) == askedLen {
		if err := s.all.wait(ctx); err != nil {
			return nil, err
		}
		if err := pass(ctx, time.After(replyAfter)); err != nil {
			return nil, err
		}
	}
	c := trinity.Completion{FinishReason: "length"}
	for i := range p.MaxTokens {
		c.Tokens, c.Logprobs = append(c.Tokens, int32(i)), append(c.Logprobs, -1)
		var top []trinity.TokenLogprob
		for k := range min(p.TopLogprobs, 20) {
			top = append(top, trinity.TokenLogprob{Token: int32(k), Logprob: -float32(k+1) / p.Temperature})
		}
		c.TopLogprobs = append(c.TopLogprobs, top)
		if slices.Contains(p.StopTokens, int32(i)) {
			c.FinishReason = "stop"
			break
		}
	}
	return []trinity.Completion{c}, nil
}

// servePaced is a fake vLLM server that waits for so many requests. It ends with its input.
func servePaced(vocab, requests string, in io.Reader, out io.Writer) error {
	v, err := strconv.Atoi(vocab)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(requests)
	if err != nil {
		return err
	}
	if err := checkFiles(n); err != nil {
		return err
	}
	fmt.Fprintln(out, server.VLLM(host(""), paced{newBarrier(n)}, server.Options{Vocab: v, MaxLen: 2 * askedLen}).URL)
	_, err = io.Copy(io.Discard, in)
	return err
}

// queue is requests of a run's sampler, all at once, to a server in a process of its own.
type queue struct {
	sampler  trinity.Sampler
	requests int
	new      int
	server   *exec.Cmd // with the pipe whose end ends it
}

func newQueue(a *assignment) (task, error) {
	if err := checkFiles(a.Batch); err != nil {
		return nil, err
	}
	cfg, err := model.ReadConfig(a.Model)
	if err != nil {
		return nil, err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(program, "paced", strconv.Itoa(cfg.VocabSize), strconv.Itoa(a.Batch))
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil { // closed when this process ends
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("the server has told no address: %w", err)
	}
	opener, err := registry.Samplers.Build("vllm")
	if err != nil {
		return nil, err
	}
	sampler, err := opener.OpenSampler(context.Background(), engine.SamplerSpec{
		ModelPath: a.Model, MaxSequences: a.Batch, MaxModelLen: 2 * askedLen, Servers: []string{strings.TrimSpace(address)},
		Record:   engine.RecordSpec{Tokens: true},
		Patience: 3 * time.Minute,
	})
	return &queue{sampler, a.Batch, a.New, cmd}, err
}

// run returns the milliseconds that half of the requests took beyond what the server waits. A request
// without its reply is an error.
func (q *queue) run(int) (sample, error) {
	added := make([]float64, q.requests)
	prompt := make([]int32, askedLen)
	var eg errgroup.Group
	for i := range added {
		eg.Go(func() error {
			start := time.Now()
			p := trinity.SamplingParams{Temperature: 1, MaxTokens: q.new, IgnoreEOS: true, Seed: uint64(i)}
			out, err := q.sampler.Sample(context.Background(), trinity.Prompt{Tokens: prompt}, p)
			if err == nil && (len(out[0].Tokens) != q.new || len(out[0].Logprobs) != q.new) {
				err = fmt.Errorf("request %d: %d tokens with %d log-probabilities came, want %d", i, len(out[0].Tokens), len(out[0].Logprobs), q.new)
			}
			added[i] = (time.Since(start) - replyAfter).Seconds() * 1e3
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return sample{}, err
	}
	slices.Sort(added)
	return sample{Value: added[len(added)/2], P99: added[len(added)*99/100]}, nil
}
