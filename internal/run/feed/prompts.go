package feed

import (
	"context"
	"fmt"
	"slices"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/config"
)

// sampledRows is the number of rows whose lengths give the mean length.
const sampledRows = 32

// promptLengths are the lengths of the first prompts of tasksets, in tokens.
type promptLengths struct {
	looked, sum   int
	long, longest int
	where         string // the row of the longest
}

// add adds a prompt.
func (p *promptLengths) add(tokens, most int, where string) {
	p.looked, p.sum = p.looked+1, p.sum+tokens
	if most > 0 && tokens > most {
		p.long++
	}
	if tokens > p.longest {
		p.longest, p.where = tokens, where
	}
}

// measurePrompts adds the prompts of rows of a taskset. Rows whose workflow writes a prompt of its own are left out.
func (s *Reader) measurePrompts(p *promptLengths, t *Taskset, rows rowsOfTasks, most int) (err error) {
	images := t.images(rows)
	if images != nil {
		most = min(most, sampledRows)
	}
	for i := range min(rows.Len(), most) {
		task := t.Template
		if task.Row, err = rows.Row(i); err != nil {
			return err
		}
		if images != nil {
			if task.Images, err = images.Of(i); err != nil {
				return err
			}
		}
		messages, err := task.Messages("")
		if err != nil {
			continue
		}
		tools, err := task.Tools()
		if err != nil {
			continue // the check of the rows says so, if the workflow reads them
		}
		ids, err := s.Text.Render(messages, tools, true)
		if err != nil && images != nil {
			return fmt.Errorf("%s: %w", rows.Where(i), err)
		}
		if err != nil {
			ids = s.Text.Encode(messages[len(messages)-1].Content)
		}
		p.add(len(ids), s.mostPrompt(), rows.Where(i))
	}
	return nil
}

// mostPrompt returns how many tokens a prompt may have; 0 if that is not known.
func (s *Reader) mostPrompt() int { return config.Value(0, s.Model.MaxPromptTokens) }

// tooLong returns the error for prompts of which too many are longer than they may be.
func (s *Reader) tooLong(p *promptLengths, what string) error {
	return s.At("model.max_prompt_tokens", fmt.Sprintf("is %d, and %s", s.mostPrompt(), p.said(what)),
		fmt.Sprintf("set it to %d or more, or shorten the prompts", p.longest))
}

// said describes prompts that are too long.
func (p *promptLengths) said(what string) string {
	of := fmt.Sprintf("%d of the %d %s looked at have", p.long, p.looked, what)
	switch {
	case p.looked == 1:
		of = "the only one of the " + what + " has"
	case p.long == p.looked:
		of = fmt.Sprintf("all %d %s looked at have", p.looked, what)
	}
	return fmt.Sprintf("%s more tokens, %d in the longest (%s): they give no rollouts", of, p.longest, p.where)
}

// promptLength returns the mean length of the first prompts of the tasksets. If all prompts that
// it looks at are too long, the run cannot learn.
func (s *Reader) promptLength(f *config.Facts) (float64, error) {
	all, err := s.firstPrompts(sampledRows)
	if err == nil && all.long > 0 && all.long == all.looked {
		all, err = s.firstPrompts(formattedRows)
	}
	switch {
	case err != nil:
		return 0, err
	case all.long > 0 && all.long == all.looked:
		f.DoesNotFit = s.tooLong(&all, "prompts").Error()
	case all.long > 0:
		f.TooLong = fmt.Sprintf("model.max_prompt_tokens is %d, and %s", s.mostPrompt(), all.said("prompts"))
	}
	if all.looked == 0 {
		return float64(s.mostPrompt()), nil
	}
	return float64(all.sum) / float64(all.looked), nil
}

// firstPrompts measures the first prompts of each taskset; without training tasksets, of each evaluation taskset.
func (s *Reader) firstPrompts(most int) (all promptLengths, err error) {
	for i := range s.Tasksets {
		t := &s.Tasksets[i]
		if t.Eval && all.looked > 0 {
			continue
		}
		rows, err := t.here()
		if err != nil {
			return all, err
		}
		if rows == nil {
			continue
		}
		if err := s.measurePrompts(&all, t, rows, most); err != nil {
			return all, err
		}
	}
	return all, nil
}

// checkPrompts returns an error if no prompt of a taskset fits, and says how many do not. It tries what the tasks
// need: a workflow that begins episodes says what its policy reads first.
func (s *Reader) checkPrompts(ctx context.Context, t *Taskset, rows rowsOfTasks) error {
	first, err := t.probe(ctx, rows, 0)
	if err != nil || s.Text == nil || s.mostPrompt() == 0 {
		return err
	}
	var all promptLengths
	what := "prompts"
	if len(first.Messages) == 0 {
		err = s.measurePrompts(&all, t, rows, formattedRows)
	} else {
		what = "first messages"
		err = s.measureFirst(ctx, &all, t, rows, first)
	}
	switch {
	case err != nil || all.long == 0:
		return err
	case all.long == all.looked:
		return s.tooLong(&all, what+" of taskset "+t.Name)
	}
	s.Say(fmt.Sprintf("taskset %s: model.max_prompt_tokens is %d, and %s", t.Name, s.mostPrompt(), all.said(what)))
	return nil
}

// measureFirst adds what the policy reads first of an episode. If that is too long for the first row, other episodes may
// begin with less.
func (s *Reader) measureFirst(ctx context.Context, p *promptLengths, t *Taskset, rows rowsOfTasks, first trinity.Observation) error {
	for _, i := range slices.Compact([]int{0, rows.Len() / 2, rows.Len() - 1}) {
		if i > 0 {
			var err error
			if first, err = t.probe(ctx, rows, i); err != nil {
				return err
			}
		}
		ids, err := s.Text.Render(first.Messages, first.Tools, true)
		if err != nil {
			return fmt.Errorf("%s: the first message: %w", rows.Where(i), err)
		}
		if p.add(len(ids), s.mostPrompt(), rows.Where(i)); p.long == 0 {
			return nil
		}
	}
	return nil
}
