// Package feed opens what a stage reads and keeps: tasksets, datasets, the buffer between explorers and
// trainer, and archives of experiences. It also says how far the two loops may be apart.
package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity/algorithm"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/model/hub"
	"github.com/trinity-go/trinity/internal/run/record"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/model/renderer"
)

// Reader opens the data of a stage.
type Reader struct {
	*config.Settled
	Say       func(string) // for people
	Tasksets  []Taskset
	Objective *algorithm.Algorithm
	Text      *renderer.Renderer // of the model
	ModelPath string
	Give      func(plugins ...any) error // gives plug-ins what the stage offers; nil where there is no stage
}

// openDataset opens the rows of a section of the configuration. progress is the section's
// enable_progress_bar.
func (s *Reader) openDataset(ctx context.Context, path string, opts dataset.Options, progress bool) (*dataset.Dataset, error) {
	opts.Resolve = func(name string) (string, error) { return resolveDataset(ctx, name) }
	opts.Scratch, opts.Note = filepath.Join(s.Buffer.CacheDir, "datasets"), s.Say
	if progress {
		m := record.NewMeter("reading ", s.Say)
		opts.Progress = func(file string, done, total int64) { m.Tell(filepath.Base(file), done, total) }
	}
	return OpenRows(ctx, path, opts)
}

// OpenRows opens a dataset. It returns an error if the dataset has no rows.
func OpenRows(ctx context.Context, path string, opts dataset.Options) (*dataset.Dataset, error) {
	d, err := dataset.Open(ctx, path, opts)
	if err == nil && d.Len() == 0 {
		err = fmt.Errorf("dataset %s has no rows", safetext.Hidden(path))
	}
	return d, err
}

// rowsOf returns where the rows of a section are in its path. In a database, the table has the name
// of the subset or, as in Trinity-RFT, of the section.
func rowsOf(path, split, subset, name string, retries, seconds int) dataset.Options {
	o := dataset.Options{Split: split, Subset: subset}
	if dburl.IsURL(path) {
		o.Subset = cmp.Or(subset, name)
		o.Retries, o.RetryInterval = retries, wait.Seconds(float64(seconds))
	}
	return o
}

// bufferRows returns where the rows of a buffer are in its path, if the buffer is a dataset.
func bufferRows(b *config.ExperienceBuffer) dataset.Options {
	return rowsOf(b.Path, b.Split, b.SubsetName, b.Name, b.MaxRetryTimes, b.MaxRetryInterval)
}

// resolveDataset downloads a dataset that is on the hub.
func resolveDataset(ctx context.Context, name string) (string, error) {
	if !IsHubDataset(name) {
		return "", fmt.Errorf("dataset %s: no such file or directory", name)
	}
	return hub.Pull(ctx, DatasetName(name), hub.Options{})
}

// IsHubDataset reports whether the name of a dataset that is not on this machine may be a name of
// the hub. A name that looks like a file is not.
func IsHubDataset(name string) bool {
	return hub.IsName(DatasetName(name)) && (strings.Contains(name, "://") || !dataset.IsFile(name))
}

// DatasetName returns the hub's name of a dataset that a configuration writes as org/name.
func DatasetName(name string) string {
	if strings.Contains(name, "://") {
		return name
	}
	return "hf://datasets/" + name
}

// Dataset is a dataset that a configuration names. Key is the section with its path.
type Dataset struct {
	Key, Path string
	Options   dataset.Options
}

// Datasets lists the datasets that a configuration names, without the pending one that a task
// pipeline has yet to make.
func Datasets(cfg *config.Settled, pending string) (all []Dataset) {
	add := func(key, path string, of dataset.Options) {
		if path != "" && path != pending { // config reports a missing path
			all = append(all, Dataset{key, path, of})
		}
	}
	for _, t := range cfg.Data.Tasksets {
		if t.IsQueue() { // it may come into being later
			continue
		}
		add(t.Key, t.Path, tasksOf(&t.Taskset))
	}
	for _, b := range cfg.Data.Besides() {
		add(b.Key, b.Path, bufferRows(&b.ExperienceBuffer))
	}
	if b := cfg.Buffer.TrainerInput.ExperienceBuffer; b != nil && (b.SchemaType != "experience" || cfg.Recorded) {
		add("buffer.trainer_input.experience_buffer", b.Path, bufferRows(b))
	}
	return all
}

// Local returns the path of a model or dataset, "" if it is not on this machine. onHub reports
// whether a run could download it then.
func Local(name string, isDataset bool) (path string, onHub bool) {
	if _, err := os.Stat(name); err == nil || isDataset && dburl.IsURL(name) {
		return name, false
	}
	hubName, isName := name, hub.IsName(name)
	if isDataset {
		hubName, isName = DatasetName(name), IsHubDataset(name)
	}
	if dir, ok := hub.Cached(hubName); ok {
		return dir, false
	}
	return "", isName
}

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

// rowLengths returns the mean lengths of the first rows of a dataset, up to the first trained token
// and from there on.
func (s *Reader) rowLengths(b *config.ExperienceBuffer, f *config.Facts) (prompt, response float64, err error) {
	data, format, err := s.formatted(context.Background(), b, s.Objective.Def.Schema)
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
