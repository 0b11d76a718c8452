package run

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/model/hub"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/internal/wait"
)

// reader opens the data of a stage.
type reader struct {
	*Settled
	say func(string) // for people
}

// openDataset opens the rows of a section of the configuration. progress is the section's
// enable_progress_bar.
func (s *reader) openDataset(ctx context.Context, path string, opts dataset.Options, progress bool) (*dataset.Dataset, error) {
	opts.Resolve = func(name string) (string, error) { return resolveDataset(ctx, name) }
	opts.Scratch, opts.Note = filepath.Join(s.Buffer.CacheDir, "datasets"), s.say
	if progress {
		m := newMeter("reading ", s.say)
		opts.Progress = func(file string, done, total int64) { m.told(filepath.Base(file), done, total) }
	}
	return openRows(ctx, path, opts)
}

// openRows opens a dataset. It returns an error if the dataset has no rows.
func openRows(ctx context.Context, path string, opts dataset.Options) (*dataset.Dataset, error) {
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
	if !isHubDataset(name) {
		return "", fmt.Errorf("dataset %s: no such file or directory", name)
	}
	return hub.Pull(ctx, datasetName(name), hub.Options{})
}

// isHubDataset reports whether the name of a dataset that is not on this machine may be a name of
// the hub. A name that looks like a file is not.
func isHubDataset(name string) bool {
	return hub.IsName(datasetName(name)) && (strings.Contains(name, "://") || !dataset.IsFile(name))
}

// datasetName returns the hub's name of a dataset that a configuration writes as org/name.
func datasetName(name string) string {
	if strings.Contains(name, "://") {
		return name
	}
	return "hf://datasets/" + name
}

// namedDataset is a dataset that a configuration names. key is the section with its path.
type namedDataset struct {
	key, path string
	of        dataset.Options
}

// datasets lists the datasets that a configuration names, without the pending one that a task
// pipeline has yet to make.
func datasets(cfg *Settled, pending string) (all []namedDataset) {
	add := func(key, path string, of dataset.Options) {
		if path != "" && path != pending { // config reports a missing path
			all = append(all, namedDataset{key, path, of})
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

// checkDatasets returns an error if a dataset that the stage reads lacks files, or is nowhere: not
// on this machine, not on a hub, and none that a stage before makes.
func checkDatasets(cfg *Settled, before []*Settled) error {
	if done, err := finished(cfg, false); err != nil || done != nil {
		return err
	}
	recipe, report, err := taskPipeline(cfg)
	if err != nil {
		return err
	}
	read := cfg.Sources()
	for _, d := range datasets(cfg, pending(recipe, report)) {
		key := d.key + ".path"
		made := slices.ContainsFunc(before, func(s *Settled) bool { return s.Leaves(d.path) })
		if made || !slices.Contains(read, key) {
			continue
		}
		path, onHub := local(d.path, true)
		if path == "" && !onHub {
			return cfg.At(key, fmt.Sprintf("dataset %s: no such file or directory", d.path), "")
		}
		if path != "" && !dburl.IsURL(path) {
			if err := dataset.Find(path, d.of); err != nil {
				return cfg.At(key, err.Error(), "")
			}
		}
	}
	return nil
}
