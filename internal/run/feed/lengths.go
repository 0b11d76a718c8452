package feed

import (
	"context"
	"errors"
	"fmt"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/dataset"
)

// sampledRows is the number of rows whose lengths give the mean length.
const sampledRows = 32

// formattedRows is the number of rows of training data that check formats. The run formats all that it reads.
const formattedRows = 1 << 11

// Lengths returns the mean tokens of prompts and responses, and says in words where they come from.
// For a dataset they are the means of its first rows. For rollouts, prompts are the mean of the
// first tasks, and responses are as long as the configuration allows.
// Prompts and rows that are too long are added to f.
func (s *Reader) Lengths(f *config.Facts) (prompt, response float64, why string, err error) {
	if s.ReadsDataset {
		b := s.Buffer.TrainerInput.ExperienceBuffer
		prompt, response, err = s.rowLengths(b, f)
		return prompt, response, fmt.Sprintf("rows of %.0f tokens", prompt+response), err
	}
	if prompt, err = s.promptLength(f); err != nil {
		return 0, 0, "", err
	}
	response = float64(config.Value(0, s.Model.MaxResponseTokens))
	if response == 0 {
		response = float64(config.Value(0, s.Model.MaxModelLen)) - prompt
	}
	return prompt, response, fmt.Sprintf("prompts of %.0f tokens, responses as long as they may be, %.0f", prompt, response), nil
}

// promptLength returns the mean length of the first prompts of the tasksets. If all prompts that
// there are are too long, the run cannot learn.
func (s *Reader) promptLength(f *config.Facts) (float64, error) {
	tokens, n, long, sampled := 0, 0, 0, false
	most := config.Value(0, s.Model.MaxPromptTokens)
	for i := range s.Tasksets {
		t := &s.Tasksets[i]
		if t.Eval && n > 0 {
			continue
		}
		rows, err := t.here()
		if err != nil {
			return 0, err
		}
		if rows == nil {
			continue
		}
		sampled = sampled || t.IsQueue() || rows.Len() > sampledRows
		for i := range min(rows.Len(), sampledRows) {
			task := t.Template
			if task.Row, err = rows.Row(i); err != nil {
				return 0, err
			}
			messages, err := task.Messages("")
			if err != nil {
				continue // a workflow with prompts of its own
			}
			tools, err := task.Tools()
			if err != nil {
				continue // the check of the rows says so, if the workflow reads them
			}
			ids, err := s.Text.Render(messages, tools, true)
			if err != nil {
				ids = s.Text.Encode(messages[len(messages)-1].Content)
			}
			tokens, n = tokens+len(ids), n+1
			if most > 0 && len(ids) > most {
				long++
			}
		}
	}
	said := fmt.Sprintf("%d of the %d prompts looked at have more than model.max_prompt_tokens = %d tokens: they give no rollouts",
		long, n, most)
	switch {
	case long > 0 && long == n && !sampled:
		f.DoesNotFit = said
	case long > 0:
		f.TooLong = said
	}
	if n == 0 {
		return float64(config.Value(0, s.Model.MaxPromptTokens)), nil
	}
	return float64(tokens) / float64(n), nil
}

// rowLengths returns the mean lengths of the first rows of a dataset, up to the first trained token
// and from there on.
func (s *Reader) rowLengths(b *config.ExperienceBuffer, f *config.Facts) (prompt, response float64, err error) {
	data, format, err := s.formatted(context.Background(), b, s.Algorithm.Def.Schema)
	if err != nil {
		return 0, 0, err
	}
	n, long := 0, 0
	var length *dataset.LengthError // of the last row that is too long
	looked := min(data.Len(), formattedRows)
	for i := range looked {
		row, err := data.Row(i)
		if err != nil {
			return 0, 0, err
		}
		exps, err := format.Format(row)
		if errors.As(err, &length) {
			long++
			continue
		}
		if err != nil {
			return 0, 0, s.At("buffer.trainer_input.experience_buffer.path", fmt.Sprintf("%s: %v", data.Where(i), err), "")
		}
		for _, x := range exps {
			prompt, response, n = prompt+float64(x.PromptLen), response+float64(len(x.Tokens)-x.PromptLen), n+1
		}
	}
	if long > 0 { // the run refuses to start
		f.DoesNotFit = fmt.Sprintf("%d of the %d rows looked at are too long (%v)", long, looked, length)
	}
	if b.Format.Packing || n == 0 {
		return 0, float64(config.Value(0, s.Model.MaxModelLen)), nil
	}
	return prompt / float64(n), response / float64(n), nil
}
