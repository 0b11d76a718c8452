package feed

import (
	"cmp"
	"context"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
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
	rows, err := s.rows(ctx, b, s.Algorithm.Def.Schema, epochs)
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
	sel, err := openSelector(&b.DataSelector, data)
	if err != nil {
		return nil, err
	}
	if schema == "experience" && s.Algorithm.InPipeline() != nil && s.Algorithm.Def.Advantage != "none" {
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
