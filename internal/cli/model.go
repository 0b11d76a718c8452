package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/model/hub"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
	"github.com/trinity-go/trinity/registry"
)

// modelFlags are the flags of commands that open a model.
type modelFlags struct {
	path    string
	rounded string // quantization of a sampler's weights
	length  int    // of a sequence: --max-model-len; 0 if not given
	base    string // of the opened model: without the adapter
	text    *renderer.Renderer
}

const modelHelp = "model: directory, GGUF file, PEFT adapter directory, run or its checkpoint, or hub name org/name"

func (f *modelFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.path, "model", "m", "", modelHelp)
	if err := cmd.MarkFlagRequired("model"); err != nil {
		panic(err) // the flag was added above
	}
}

// addSampler adds the flags of commands that sample from the model.
func (f *modelFlags) addSampler(cmd *cobra.Command) {
	f.add(cmd)
	cmd.Flags().StringVar(&f.rounded, "quantization", "", "hold the weights in bf16 or int8: faster and smaller, but less exact")
}

// openEngine loads the model for forward passes, with its tokenizer and template.
func (f *modelFlags) openEngine(ctx context.Context, dtype string) (engine.Trainer, error) {
	lora, err := f.find(ctx)
	if err != nil {
		return nil, err
	}
	opener, err := registry.Trainers.Build(registry.Trainers.Auto[0])
	if err != nil {
		return nil, err
	}
	return opener.OpenTrainer(ctx, engine.TrainerSpec{ModelPath: f.base, LoRA: lora, DType: dtype})
}

// openSampler loads the model with its tokenizer and template, to sample the given number of
// sequences at once.
func (f *modelFlags) openSampler(ctx context.Context, sequences int) (trinity.Sampler, error) {
	lora, err := f.find(ctx)
	if err != nil {
		return nil, err
	}
	opener, err := registry.Samplers.Build(registry.Samplers.Auto[0])
	if err != nil {
		return nil, err
	}
	spec := engine.SamplerSpec{ModelPath: f.base, LoRA: lora, Quantization: f.rounded, MaxSequences: sequences}
	if f.text != nil {
		spec.Text = f.text.Decode
	}
	return opener.OpenSampler(ctx, spec)
}

// find downloads the model if needed and opens its tokenizer and template. lora is nil if the path
// is not an adapter.
func (f *modelFlags) find(ctx context.Context) (lora *engine.LoRASpec, err error) {
	say := func(line string) { fmt.Fprintln(os.Stderr, line) }
	find := func(name string) (string, error) { return hub.Resolve(ctx, name, say) }
	path, err := checkpoint.Open(f.path, find, say)
	if err != nil {
		return nil, err
	}
	if path != f.path {
		f.path = path // what else opens it needs not say so again
	}
	if path, err = find(path); err != nil {
		return nil, err
	}
	f.base = path
	if base, ok, err := model.AdapterBase(path); err != nil {
		return nil, err
	} else if ok {
		lora = &engine.LoRASpec{Path: path}
		if f.base, err = find(base); err != nil {
			return nil, fmt.Errorf("base model of adapter %s: %w", path, err)
		}
	}
	f.text, err = renderer.Open(f.base, renderer.Options{})
	return lora, err
}

// config returns the configuration of the opened model.
func (f *modelFlags) config() (*model.Config, error) {
	if f.base != f.path { // the base of an adapter, or what a checkpoint began with that has its weights elsewhere
		return model.ReadConfig(f.base)
	}
	m, err := model.Open(f.base)
	if err != nil {
		return nil, err
	}
	return m.Config, m.Close()
}

// input is one line of an --input file.
type input struct {
	Tokens   []int32           `json:"tokens"`
	Text     *string           `json:"text"`
	Messages []trinity.Message `json:"messages"`
	Tools    json.RawMessage   `json:"tools"` // schemas of tools that messages may call

	place string // file and line; "" for a prompt from the command line
}

// at prefixes err with the file and line of the input.
func (in *input) at(err error) error {
	if err == nil || in.place == "" {
		return err
	}
	return fmt.Errorf("%s: %w", in.place, err)
}

// tokens returns the line's token ids. With generate, the prompt ends where the assistant's reply
// begins.
func (in *input) tokens(text *renderer.Renderer, generate bool) ([]int32, error) {
	kinds := 0
	for _, given := range []bool{in.Tokens != nil, in.Text != nil, in.Messages != nil} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		return nil, errors.New(`want one of "tokens", "text", "messages"`)
	}
	if in.Tokens != nil {
		return in.Tokens, nil
	}
	if text == nil {
		return nil, errors.New(`the model has no tokenizer: want "tokens"`)
	}
	if in.Text != nil {
		return text.Encode(*in.Text), nil
	}
	return text.Render(in.Messages, in.Tools, generate)
}

// maxLine bounds a line of input, in bytes.
const maxLine = 64 << 20

// eachInput calls do for each JSON line of a file; "-" is standard input.
func eachInput(cmd *cobra.Command, path string, do func(in *input) error) error {
	r, name := cmd.InOrStdin(), "standard input"
	if path != "-" {
		name = path
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		r = f
	}
	return eachLine(r, name, do)
}

func eachLine(r io.Reader, name string, do func(in *input) error) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), maxLine)
	line := 0
	for sc.Scan() {
		line++
		if len(sc.Bytes()) == 0 {
			continue
		}
		in := &input{place: fmt.Sprintf("%s:%d", name, line)}
		if err := decodeLine(sc.Bytes(), in); err != nil {
			return in.at(err)
		}
		if err := do(in); err != nil {
			return err
		}
	}
	if err := sc.Err(); err != nil {
		return fmt.Errorf("%s:%d: %w", name, line+1, err)
	}
	return nil
}

// decodeLine decodes one JSON object; its errors name the key.
func decodeLine(line []byte, in *input) error {
	if !utf8.Valid(line) {
		return errors.New("the line is not UTF-8")
	}
	err := json.Unmarshal(line, in)
	var typed *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &typed) && typed.Field != "":
		return fmt.Errorf("%q is a JSON %s: want %s", typed.Field, typed.Value, keyWants[strings.Split(typed.Field, ".")[0]])
	case errors.As(err, &typed):
		return fmt.Errorf("the line is a JSON %s: want an object", typed.Value)
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON: %w", err)
	}
	return err // Message.UnmarshalJSON has named the key
}

// keyWants says what each key of an input line must hold.
var keyWants = map[string]string{
	"tokens": "a list of token ids", "text": "a text", "messages": `a list of {"role":"…","content":"…"}`,
}
