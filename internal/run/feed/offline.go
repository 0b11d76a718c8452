package feed

import (
	"cmp"
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/experience/archive"
	"github.com/trinity-go/trinity/internal/explorer"
	"github.com/trinity-go/trinity/internal/trainer"
	"github.com/trinity-go/trinity/model"
	"github.com/trinity-go/trinity/registry"
)

// offlineSource is a dataset to train on.
type offlineSource struct {
	trinity.Source
	experiences int // over all epochs; 0 if the configuration sets the number of steps
}

// offline opens the trainer's dataset. It checks all rows that the run will read, so that none ends
// the run later.
func (s *Reader) offline(ctx context.Context) (*offlineSource, error) {
	b := s.Buffer.TrainerInput.ExperienceBuffer
	epochs := config.Value(s.Buffer.TotalEpochs, b.TotalEpochs)
	steps := s.StepLimit()
	if steps > 0 {
		epochs = 0 // as many as the steps need
	}
	rows, err := s.rows(ctx, b, s.Objective.Def.Schema, epochs)
	if err != nil {
		return nil, fmt.Errorf("buffer.trainer_input.experience_buffer: %w", err)
	}
	batch := s.Buffer.TrainBatchSize * s.Batch.PerRow
	if !b.Format.Packing {
		return &offlineSource{rows, rows.Total()}, rows.Check(ctx, max(rows.Total(), steps*batch), batch)
	}
	packed, err := s.packed(rows)
	if err != nil {
		return nil, err
	}
	if steps > 0 {
		return &offlineSource{packed, 0}, packed.Check(ctx, steps*batch)
	}
	n, err := packed.Total()
	return &offlineSource{packed, n}, err
}

// rows opens a dataset of training data in the order that its selector chooses.
func (s *Reader) rows(ctx context.Context, b *config.ExperienceBuffer, schema string, epochs int) (*dataset.Source, error) {
	data, format, err := s.formatted(ctx, b, schema)
	if err != nil {
		return nil, err
	}
	sel, err := s.openSelector(&b.DataSelector, data)
	if err != nil {
		return nil, err
	}
	if schema == "experience" && s.Objective.InPipeline() != nil && s.Objective.Def.Advantage != "none" {
		format.Format = scored(format.Format)
	}
	return dataset.NewSource(data, sel, format, epochs), nil
}

// formatted opens a dataset of training data.
func (s *Reader) formatted(ctx context.Context, b *config.ExperienceBuffer, schema string) (*dataset.Dataset, dataset.RowFormatter, error) {
	data, err := s.openDataset(ctx, b.Path, bufferRows(b), b.EnableProgressBar)
	if err != nil {
		return nil, dataset.RowFormatter{}, err
	}
	if key := b.Format.ImageKey; key != "" && s.Text != nil && dataset.ReadsChats(schema) {
		data.ShowImages(key, s.Text.TakeImage)
	}
	if data.Len() >= manyRows {
		s.Say(fmt.Sprintf("checks the rows of %s before loading any weights", data.Name()))
	}
	f := dataset.Format{
		TaskFormat: b.Format.TaskFormat, PromptType: b.Format.PromptType, AllTurns: b.Format.EnableConcatenatedMultiTurn,
		MaxTokens: *s.Model.MaxModelLen, Truncate: b.Format.Truncate,
	}
	if b.Format.Packing {
		f.MaxTokens = 0 // a longer text continues in the next sequence
	}
	format, err := dataset.Formatter(schema, f, s.Text)
	if err == nil && schema == "experience" {
		format.Format = archive.KeepImages(format.Format, b.Path, s.CheckpointJobDir)
	}
	return data, format, err
}

// scored returns a formatter that refuses experiences without advantages. The trainer could not
// compute them: an advantage needs the whole group, which a batch of rows need not have.
func scored(format formatter) formatter {
	return func(row map[string]any) ([]*trinity.Experience, error) {
		exps, err := format(row)
		for _, e := range exps {
			if e.Advantages == nil {
				return nil, fmt.Errorf("experience %s has no advantages: use the files of output_save_path of an experience pipeline, "+
					"not of input_save_path", e.ID)
			}
		}
		return exps, err
	}
}

// manyRows is a number of rows whose check takes some seconds.
const manyRows = 20000

// packed joins rows into sequences of the model's length.
func (s *Reader) packed(rows *dataset.Source) (*dataset.Packed, error) {
	end := s.Text.Tokenizer().EOS()
	if end < 0 {
		return nil, fmt.Errorf("format.packing: the tokenizer of %s has no end-of-sequence token, which packing puts between texts",
			s.ModelPath)
	}
	return &dataset.Packed{Rows: rows, Length: *s.Model.MaxModelLen, End: end}, nil
}

// offlineSteps returns the number of full batches in the dataset's epochs.
func (s *Reader) offlineSteps(source *offlineSource) int {
	return max(1, source.experiences/(s.Buffer.TrainBatchSize*s.Batch.PerRow))
}

// Offline returns the source of a trainer that reads a dataset, and its number of steps.
func (s *Reader) Offline(ctx context.Context) (source trinity.Source, steps int64, err error) {
	data, err := s.offline(ctx)
	if err != nil {
		return nil, 0, err
	}
	source, err = s.Batches(ctx, data)
	return source, int64(cmp.Or(s.StepLimit(), s.offlineSteps(data))), err
}

// Batches returns the source of the trainer's batches. The sample strategy makes it from the usual
// source, which is a buffer or a dataset, and from the auxiliary buffers.
func (s *Reader) Batches(ctx context.Context, usual trinity.Source) (trinity.Source, error) {
	auxiliary := map[string]trinity.Source{}
	for _, b := range s.Data.Auxiliary {
		epochs := config.Value(0, b.TotalEpochs) // 0: as many as the rollouts need
		rows, err := s.rows(ctx, &b.ExperienceBuffer, b.SchemaType, epochs)
		if err == nil {
			err = rows.Check(ctx, rows.Total(), 1)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Key, err)
		}
		auxiliary[b.Name] = rows
	}
	return s.Method.Strategy.Open(usual, auxiliary)
}

// Admit returns why a stage cannot learn from an experience: its algorithm cannot, or replay of experts lacks them.
func Admit(s *config.Settled, objective *algorithm.Algorithm, e *trinity.Experience) error {
	if err := objective.Admit(e); err != nil || !s.Algorithm.EnableRouterReplay {
		return err
	}
	return experience.RequireExperts(e)
}

// HeldOut reads the datasets on which the trainer measures its loss.
func (s *Reader) HeldOut(ctx context.Context) (all []trainer.HeldOut, err error) {
	for _, b := range s.Data.Measured {
		set := trainer.HeldOut{Name: b.Name}
		if set.Experiences, err = s.whole(ctx, &b.ExperienceBuffer); err == nil {
			set.Loss, err = s.measure(b.SchemaType)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Key, err)
		}
		all = append(all, set)
	}
	return all, nil
}

// whole reads all experiences of a dataset.
func (s *Reader) whole(ctx context.Context, b *config.ExperienceBuffer) ([]*trinity.Experience, error) {
	rows, err := s.rows(ctx, b, b.SchemaType, 1)
	if err == nil {
		err = rows.Check(ctx, 0, 1)
	}
	if err != nil {
		return nil, err
	}
	if !b.Format.Packing {
		taken, err := rows.Take(ctx, trinity.Want{N: rows.Total()})
		return taken.Experiences(), err
	}
	packed, err := s.packed(rows)
	if err != nil {
		return nil, err
	}
	n, err := packed.Total()
	if err != nil {
		return nil, err
	}
	taken, err := packed.Take(ctx, trinity.Want{N: n})
	return taken.Experiences(), err
}

// measure returns the loss whose metrics tell about data of a schema. It is the run's own loss if
// the run trains on that schema, else the loss of the algorithm with the schema's name.
func (s *Reader) measure(schema string) (trinity.Loss, error) {
	if schema == s.Objective.Def.Schema {
		return s.Objective.Loss, nil
	}
	parts, err := registry.Parts(trinity.Algorithm{Type: schema})
	if err != nil {
		return nil, err
	}
	other, err := algorithm.New(parts)
	if err != nil {
		return nil, err
	}
	return other.Loss, nil
}

// formatter makes experiences of a row.
type formatter = func(map[string]any) ([]*trinity.Experience, error)

// Inputs opens the experiences that join the rollouts in the pipeline, and checks every row.
func (s *Reader) Inputs(ctx context.Context) (explorer.Inputs, error) {
	var all explorer.Inputs
	for _, b := range s.Data.Inputs {
		in, err := s.input(ctx, b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.Key, err)
		}
		all = append(all, in)
	}
	return all, nil
}

// input opens this explorer's share of one input.
func (s *Reader) input(ctx context.Context, b config.NamedBuffer) (*explorer.Input, error) {
	data, format, err := s.formatted(ctx, &b.ExperienceBuffer, b.SchemaType)
	if err != nil {
		return nil, err
	}
	if format.Format, err = s.joining(format.Format); err != nil {
		return nil, err
	}
	groups, err := dataset.NewGroups(ctx, data, format)
	if err != nil {
		return nil, err
	}
	in := &explorer.Input{Name: b.Name, Data: groups, PerStep: b.PerStep(), Explorer: OwnName(s.Settled)}
	if k, n := s.Explorer.Part(); n > 1 {
		in.Data = explorer.ShareOfGroups(groups, k, n)
	}
	if in.Data.Len() == 0 {
		return nil, fmt.Errorf("%s has %d groups, and none of them is in the share %s", data.Name(), groups.Len(), s.Explorer.Share)
	}
	switch {
	case b.TotalSteps != nil:
		in.Limit = int64(*b.TotalSteps) * int64(in.PerStep)
	case b.TotalEpochs != nil:
		in.Limit = int64(*b.TotalEpochs) * int64(in.Data.Len())
	}
	in.Selector, err = s.openSelector(&b.DataSelector, in.Data)
	return in, err
}

// joining returns a formatter that refuses experiences that the run cannot train on beside its own
// rollouts.
func (s *Reader) joining(format formatter) (formatter, error) {
	model, err := model.ReadConfig(s.ModelPath)
	if err != nil {
		return nil, err
	}
	logprobs := s.Objective.Needs().Behaviour || s.Method.Recomputes // to correct for the policy that sampled
	fits := func(e *trinity.Experience) error {
		if e.PromptLen < 0 || e.PromptLen > len(e.Tokens) {
			return fmt.Errorf("prompt_len is %d, of %d tokens", e.PromptLen, len(e.Tokens))
		}
		for at, token := range e.Tokens {
			if token < 0 || int(token) >= model.VocabSize {
				return fmt.Errorf("token %d at position %d is outside the vocabulary of %d: it belongs to another model",
					token, at, model.VocabSize)
			}
		}
		if err := Admit(s.Settled, s.Objective, e); err != nil {
			return err
		}
		if logprobs && e.Logprobs == nil && e.TrainedTokens() > 0 {
			return fmt.Errorf("it has no log-probabilities of the policy that sampled it, which algorithm %s reads: "+
				"use experiences that a run wrote, or a policy_loss_fn that reads none, such as opmd", s.Objective.Def.Type)
		}
		return nil
	}
	return func(row map[string]any) ([]*trinity.Experience, error) {
		exps, err := format(row)
		if err != nil {
			return nil, err
		}
		for _, e := range exps {
			if err := fits(e); err != nil {
				return nil, err
			}
			if e.Prompt == "" {
				e.Prompt = s.Text.Decode(e.Tokens[:e.PromptLen])
			}
		}
		return exps, nil
	}, nil
}
