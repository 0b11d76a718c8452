package tinker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Training is a model that the service trains. It numbers its requests.
type Training struct {
	client *Client
	id     string

	mu   sync.Mutex
	last int32 // seq_id
}

// Train makes a model.
func (c *Client) Train(ctx context.Context, base string, lora LoRAConfig) (*Training, error) {
	number := int(c.models.Add(1) - 1)
	return c.begin(ctx, number, "create_model", CreateModel{
		SessionID: c.session, ModelSeqID: &number, BaseModel: base, LoRA: &lora, OptimizerConfig: &OptimizerConfig{Type: "adamw"},
		Type: "create_model",
	})
}

// Resume makes a model of a checkpoint, with its optimizer.
func (c *Client) Resume(ctx context.Context, path string) (*Training, error) {
	number := int(c.models.Add(1) - 1)
	return c.begin(ctx, number, "load_weights", LoadWeights{
		SessionID: c.session, ModelSeqID: &number, Path: path, Optimizer: true, Type: "load_weights",
	})
}

func (c *Client) begin(ctx context.Context, number int, path string, in any) (*Training, error) {
	return &Training{client: c, id: fmt.Sprintf("%s:train:%d", c.session, number)}, c.decided(ctx, path, in, &struct{}{})
}

// next reserves n numbers, and returns the first.
func (t *Training) next(n int) int32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := t.last + 1
	t.last += int32(n)
	return first
}

// Pass is a pass over data.
type Pass struct {
	Loss        string
	Config      []Setting
	ForwardOnly bool
	Bytes       int // of a request; 0 is what the service asks for
}

// inFlight bounds the requests of a pass that are on their way.
const inFlight = 8

// Pass returns the log-probability of each target, and the sums of the metrics that are sums. It cuts the data into requests.
func (t *Training) Pass(ctx context.Context, p Pass, data []Datum) (logprobs [][]float32, sums map[string]float64, err error) {
	chunks := t.client.cut(data, p.Bytes)
	first := t.next(len(chunks))
	results := make([]*Output, len(chunks))
	eg, each := errgroup.WithContext(ctx)
	eg.SetLimit(inFlight)
	for i, chunk := range chunks {
		eg.Go(func() error {
			r := ForwardBackward{
				ModelID: t.id, SeqID: first + int32(i), Data: chunk, Loss: p.Loss, Config: p.Config, ForwardOnly: p.ForwardOnly,
			}
			reply, err := t.client.submit(each, "forward_backward", r.Encode())
			if err == nil {
				results[i], err = DecodeOutput(reply.Body)
			}
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, nil, err
	}
	sums = map[string]float64{}
	for i, o := range results {
		of, err := o.Floats("logprobs")
		if err == nil && len(of) != len(chunks[i]) {
			err = fmt.Errorf("the result has %d data, and the request %d", len(of), len(chunks[i]))
		}
		if err != nil {
			return nil, nil, t.client.named(fmt.Errorf("forward_backward: %w", err))
		}
		logprobs = append(logprobs, of...)
		for _, m := range o.Metrics {
			if name, isSum := strings.CutSuffix(m.Name, ":sum"); isSum {
				sums[name] += m.Value
			}
		}
	}
	return logprobs, sums, nil
}

// cut cuts data into requests of at most so many bytes, or of one datum.
func (c *Client) cut(data []Datum, most int) (chunks [][]Datum) {
	if most == 0 {
		most = c.Bytes
	}
	from, bytes := 0, 0
	for i := range data {
		n := data[i].bytes()
		if i > from && (bytes+n > most || i-from == c.ChunkLen) {
			chunks = append(chunks, data[from:i])
			from, bytes = i, 0
		}
		bytes += n
	}
	if from < len(data) {
		chunks = append(chunks, data[from:])
	}
	return chunks
}

// bytes returns the size of a datum, but for names and shapes.
func (d *Datum) bytes() (n int) {
	for _, c := range d.Input {
		n += len(c.Tokens)
	}
	for _, in := range d.Inputs {
		n += len(in.Tensor.Dense)
	}
	return n
}

// Step applies the gradient, with these settings of Adam, and returns the metrics.
func (t *Training) Step(ctx context.Context, adam map[string]*float64) (map[string]float64, error) {
	var result struct {
		Metrics map[string]float64 `json:"metrics"`
	}
	in := OptimStep{ModelID: t.id, SeqID: t.next(1), Adam: adam, Type: "optim_step"}
	return result.Metrics, t.client.decided(ctx, "optim_step", in, &result)
}

// Save writes a checkpoint of a kind and returns its path: Weights has the optimizer, SamplerWeights is for samplers.
func (t *Training) Save(ctx context.Context, kind, name string) (string, error) {
	in, call := SaveWeights{ModelID: t.id, Path: name, SeqID: t.next(1)}, "save_weights"
	if kind == SamplerWeights {
		call, in.Kind = "save_weights_for_sampler", "snapshot"
	}
	in.Type = call
	var saved SavedWeights
	if err := t.client.decided(ctx, call, in, &saved); err != nil {
		return "", err
	}
	if saved.Path == nil {
		return "", t.client.named(errors.New(call + ": the result has no path"))
	}
	return *saved.Path, nil
}

// Load loads a checkpoint with its optimizer into the model.
func (t *Training) Load(ctx context.Context, path string) error {
	in := LoadWeights{ModelID: t.id, SeqID: t.next(1), Path: path, Optimizer: true, Type: "load_weights"}
	return t.client.decided(ctx, "load_weights", in, &struct{}{})
}

// Remove removes a checkpoint. One that is not there is no error, and neither is a service that removes none.
func (c *Client) Remove(ctx context.Context, path string) error {
	address, err := c.checkpoint(path)
	if err != nil {
		return err
	}
	r := c.request(address, nil)
	r.Method, r.Body = http.MethodDelete, nil
	_, err = c.client(restTime, 1).Do(ctx, r)
	if statusOf(err) == http.StatusNotFound {
		return nil
	}
	return c.named(err)
}

// Archive returns the files of a checkpoint, as tar.
func (c *Client) Archive(ctx context.Context, path string) ([]byte, error) {
	address, err := c.checkpoint(path)
	if err != nil {
		return nil, err
	}
	r := c.request(address+"/archive", nil)
	r.Method, r.Body = http.MethodGet, nil
	reply, err := c.persist(ctx, r, c.client(5*time.Minute, 10))
	if err != nil {
		return nil, c.named(fmt.Errorf("the archive of %s: %w", path, err))
	}
	return reply.Body, nil
}

// checkpoint returns the address of a checkpoint.
func (c *Client) checkpoint(path string) (string, error) {
	p, err := ParsePath(path)
	return fmt.Sprintf("training_runs/%s/checkpoints/%s/%s", url.PathEscape(p.Run), p.Kind, p.Name), err
}

// Served is a model that a service has.
type Served struct {
	Name      string `json:"model_name"`
	MaxLength int    `json:"max_context_length"` // tokens; 0 if it does not say
	Trainable *bool  `json:"trainable"`
}

// Models lists the models of the service.
func (c *Client) Models(ctx context.Context) ([]Served, error) {
	r := c.request("get_server_capabilities", nil)
	r.Method, r.Body = http.MethodGet, nil
	var all struct {
		Models []Served `json:"supported_models"`
	}
	reply, err := c.persist(ctx, r, c.client(callTime, 10))
	if err == nil {
		err = Decode(reply.Body, &all)
	}
	return all.Models, c.named(err)
}

// Sampling is a session that samples.
type Sampling struct {
	client *Client
	id     string

	mu   sync.Mutex
	next int64 // seq_id
}

// SampleFrom begins a session that samples from a base model, or from a checkpoint.
func (c *Client) SampleFrom(ctx context.Context, base, path string) (*Sampling, error) {
	number := int(c.samples.Add(1) - 1)
	var made struct {
		ID string `json:"sampling_session_id"`
	}
	in := CreateSampler{SessionID: c.session, SamplerSeqID: &number, BaseModel: base, ModelPath: path, Type: "create_sampling_session"}
	err := c.call(ctx, "create_sampling_session", in, &made)
	if err == nil && made.ID == "" {
		err = c.named(errors.New("create_sampling_session: the answer has no sampling_session_id"))
	}
	return &Sampling{client: c, id: made.ID}, err
}

// Sample samples. A request whose result is lost is sent again, with another number.
func (s *Sampling) Sample(ctx context.Context, in Sample) (*Samples, error) {
	in.SamplingSessionID, in.Type = s.id, "sample"
	for try := 1; ; try++ {
		s.mu.Lock()
		seq := s.next
		s.next++
		s.mu.Unlock()
		in.SeqID = &seq
		reply, err := s.client.submit(ctx, "asample", in)
		if statusOf(err) == http.StatusGone && try < 3 {
			continue
		}
		if err != nil {
			return nil, err
		}
		samples, err := DecodeSamples(reply.Body)
		if err == nil && len(samples.Sequences) != in.NumSamples {
			err = fmt.Errorf("asample: %d sequences, and %d were asked for", len(samples.Sequences), in.NumSamples)
		}
		return samples, s.client.named(err)
	}
}
