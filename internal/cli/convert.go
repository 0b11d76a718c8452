package cli

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/trinity-go/trinity/internal/model/hub"
	"github.com/trinity-go/trinity/internal/model/tokenizer"
	"github.com/trinity-go/trinity/internal/run/checkpoint"
	"github.com/trinity-go/trinity/internal/run/learn"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/model/renderer"
)

func convertCommand() *cobra.Command {
	var c conversion
	cmd := &cobra.Command{
		Use:   "convert SOURCE --output DIR|FILE.gguf",
		Short: "Write a model, a checkpoint or a merged adapter as a Hugging Face directory or a GGUF file",
		Long: "SOURCE is a GGUF file, a model directory, a hub name, a run (its best checkpoint, else its newest),\n" +
			"a checkpoint global_step_N or a folder below it, or a PEFT adapter directory, which is merged\n" +
			"into the base model that it names. With --adapter, SOURCE is the base model, and the adapter's\n" +
			"own base is ignored. If --output ends in .gguf, the command writes a file for llama.cpp.",
		Args: wantArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.check(); err != nil {
				return err
			}
			if err := c.convert(cmd.Context(), args[0]); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), c.out)
			return nil
		},
	}
	cmd.Flags().StringVarP(&c.out, "output", "o", "", "directory or .gguf file to write")
	cmd.Flags().StringVar(&c.adapter, "adapter", "", "PEFT adapter directory, or checkpoint of a LoRA run, to merge into SOURCE")
	cmd.Flags().StringVar(&c.dtype, "dtype", "f32", "number type to write: f32 (lossless) or bf16; in a GGUF file also f16, q8_0 or q4_1")
	if err := cmd.MarkFlagRequired("output"); err != nil {
		panic(err) // the flag was added above
	}
	return cmd
}

// conversion is what to write.
type conversion struct {
	out, dtype, adapter string
	checkpoint          string // in which the weights are; "" if they are in none
}

// gguf reports whether the output is a GGUF file.
func (c *conversion) gguf() bool { return strings.EqualFold(filepath.Ext(c.out), ".gguf") }

// check returns an error for a bad flag, before anything is read.
func (c *conversion) check() error {
	known, holds := []string{"bf16", "f32"}, filepath.Join(c.out, "config.json")
	if c.gguf() {
		known, holds = model.GGUFTypes(), c.out
	}
	if !slices.Contains(known, c.dtype) {
		return fmt.Errorf("--dtype is %q: want one of %s", c.dtype, strings.Join(known, ", "))
	}
	if _, err := os.Stat(holds); err == nil {
		return fmt.Errorf("%s already holds a model: choose another --output", c.out)
	}
	return nil
}

// convert writes source. If source is an adapter, or c.adapter is set, it merges the adapter into
// its base first.
func (c *conversion) convert(ctx context.Context, source string) (err error) {
	say := func(line string) { fmt.Fprintln(os.Stderr, line) }
	find := func(name string) (string, error) { return hub.Resolve(ctx, name, say) }
	for _, path := range []*string{&source, &c.adapter} {
		if *path, err = checkpoint.Open(*path, find, say); err != nil {
			return err
		}
	}
	c.checkpoint = checkpoint.Above(filepath.Clean(cmp.Or(c.adapter, source)))
	base, err := baseAndAdapter(source, &c.adapter)
	if err != nil {
		return err
	}
	if base, err = find(base); err != nil {
		return err
	}
	m, err := model.Open(base)
	if err != nil {
		return err
	}
	defer m.Close()
	if c.adapter != "" {
		update, err := model.OpenAdapter(c.adapter, m.Config)
		if err != nil {
			return err
		}
		defer update.Close()
		if m, err = model.Merge(m, update); err != nil {
			return err
		}
	}
	text, err := renderer.Open(base, renderer.Options{})
	if err != nil {
		return err
	}
	return c.write(m, text)
}

// write writes m. text is nil if the model has no tokenizer.
func (c *conversion) write(m *model.Model, text *renderer.Renderer) error {
	var tok *tokenizer.Tokenizer
	if text != nil {
		tok = text.Tokenizer()
	}
	if c.gguf() {
		return model.WriteGGUF(c.out, m, m, tok, c.dtype)
	}
	if err := model.WriteDir(c.out, m.Config, m, c.dtype); err != nil {
		return err
	}
	if tok != nil {
		if err := tok.WriteFiles(c.out); err != nil {
			return err
		}
	}
	if c.checkpoint == "" {
		return nil
	}
	return learn.WriteCard(c.out, filepath.Base(c.out), c.checkpoint, "transformers")
}

// baseAndAdapter returns the base model. If there is an adapter to merge, it sets adapter to its
// directory.
func baseAndAdapter(source string, adapter *string) (base string, err error) {
	named, isAdapter, err := model.AdapterBase(source)
	switch {
	case err != nil:
		return "", err
	case *adapter != "" && isAdapter:
		return "", fmt.Errorf("%s is an adapter, and so is --adapter: name the base model as SOURCE", source)
	case *adapter != "":
		return source, nil
	case isAdapter:
		*adapter = source
		return named, nil
	}
	return source, nil
}
