package feed

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/database/dburl"
	"github.com/trinity-go/trinity/internal/dataset"
	"github.com/trinity-go/trinity/internal/durable"
	"github.com/trinity-go/trinity/internal/experience"
	"github.com/trinity-go/trinity/internal/run/record"
)

// maxWord bounds the file with the word of a run, in bytes.
const maxWord = 64

// DataSources lists the data of a stage whose files are in the directory dir: another one than the
// configuration says if somebody copied the run. It opens and writes nothing.
func DataSources(cfg *config.Settled, dir string) []dataset.Entry {
	l := &dataLister{Settled: cfg, dir: dir, job: cfg.CheckpointJobDir}
	cfg.Buffer.CacheDir = l.own(cfg.Buffer.CacheDir)
	for _, t := range cfg.Data.Tasksets {
		o := tasksOf(&t.Taskset)
		o.Queue = t.IsQueue()
		l.add(dataset.Entry{Key: t.Key, Name: t.Name, Kind: dataset.KindTasks, Path: t.Path, Options: o, Format: l.format(&t.Format)})
	}
	for _, b := range cfg.Data.Besides() {
		l.buffer(b.Key, b.Name, &b.ExperienceBuffer, b.SchemaType)
	}
	l.store()
	l.copies()
	return l.all
}

// dataLister gathers the data of a stage.
type dataLister struct {
	*config.Settled
	dir, job string // of the run: where it is, and where the configuration says it is
	all      []dataset.Entry
}

// own returns where a path in the run's directory is.
func (l *dataLister) own(path string) string {
	file, prefix := path, ""
	if rest, ok := strings.CutPrefix(path, "sqlite:///"); ok {
		file, prefix = rest, "sqlite:///"
	} else if dburl.IsURL(path) {
		return path
	}
	job, err := filepath.Abs(l.job)
	if err != nil {
		return path
	}
	full, err := filepath.Abs(file)
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(job, full)
	if err != nil || !filepath.IsLocal(rel) {
		return path
	}
	return prefix + filepath.Join(l.dir, rel)
}

// isOwn reports whether a path is in the run's directory.
func (l *dataLister) isOwn(path string) bool {
	in, err := record.IsBelow(path, l.dir)
	return err == nil && in
}

// add adds a source, with the reason if it is not there.
func (l *dataLister) add(d dataset.Entry) {
	if d.Path == "" {
		return
	}
	name := l.own(d.Path)
	switch found, onHub := Local(name, true); {
	case strings.Contains(d.Path, ":***@"):
		d.Problem = "the run has kept the address without its password, so the studio cannot open it"
	case found != "":
		name = found
	case onHub:
		d.Problem = "this dataset of a hub is not on this machine: `trinity pull` fetches it"
	default:
		d.Problem = "there is no such file or directory: a relative path begins where the studio was started"
	}
	d.Path = name
	l.all = append(l.all, d)
}

// format returns how the rows of a section become training data. No length is a limit here.
func (l *dataLister) format(f *config.Format) dataset.Format {
	return dataset.Format{TaskFormat: f.TaskFormat, PromptType: f.PromptType, AllTurns: f.EnableConcatenatedMultiTurn}
}

// buffer adds a buffer that is a dataset.
func (l *dataLister) buffer(key, name string, b *config.ExperienceBuffer, schema string) {
	schema = cmp.Or(schema, "experience")
	l.add(dataset.Entry{Key: key, Name: name, Kind: schema, Path: b.Path, Options: bufferRows(b), Format: l.format(&b.Format)})
}

// store adds what passes experiences to the trainer, or the dataset that it reads instead.
func (l *dataLister) store() {
	const key = "buffer.trainer_input.experience_buffer"
	b := l.Buffer.TrainerInput.ExperienceBuffer
	switch {
	case b == nil:
	case l.ReadsDataset:
		schema := b.SchemaType
		if parts := l.Method.Parts; parts != nil && !l.Recorded {
			schema = cmp.Or(schema, parts.Schema)
		}
		l.buffer(key, b.Name, b, schema)
	case l.Mode == "explore" && b.StorageType == "file":
		l.archives(key, b.Name, l.Buffer.ExperienceFile(), "")
	case l.SharedStore:
		l.rowsOf(key, b.Name, b.Path, "trinity_experiences", "buffer =", "number", path.Join(l.Project, l.Group, l.Name, b.Name))
	default:
		l.add(dataset.Entry{Key: key, Name: b.Name, Kind: dataset.KindLog, Path: filepath.Join(l.Buffer.CacheDir, LogDir)})
	}
}

// copies adds the archives of the experience pipeline.
func (l *dataLister) copies() {
	p := &l.DataProcessor.ExperiencePipeline
	if p.SaveInput && l.Explores {
		l.archives("data_processor.experience_pipeline.input_save_path", "input", l.DataProcessor.InputCopy(&l.Buffer), "input")
	}
	if p.OutputSavePath != "" && l.Explores {
		l.archives("data_processor.experience_pipeline.output_save_path", "output", p.OutputSavePath, "output")
	}
}

// archives adds the archive at a path. what is its name in a database. Several explorers have archives
// beside one another.
func (l *dataLister) archives(key, name, at, what string) {
	if dburl.IsURL(at) {
		l.rowsOf(key, name, at, "trinity_archive", "archive LIKE", "id", path.Join(l.Project, l.Group, l.Name, "%"+what)) // of any explorer
		return
	}
	if at = l.own(at); !l.isOwn(at) { // each run has a directory below it
		word, err := l.word()
		if err != nil {
			return // it has written nothing yet
		}
		at = filepath.Join(at, word+experience.Form(at))
	}
	dirs, _ := filepath.Glob(filepath.Join(filepath.Dir(at), "*-"+filepath.Base(at))) // without a match there is one explorer
	for _, dir := range append(dirs, at) {
		if _, err := os.Stat(dir); err != nil && len(dirs) > 0 {
			continue
		}
		own := key
		if dir != at {
			own += "." + filepath.Base(dir)
		}
		l.add(dataset.Entry{Key: own, Name: strings.TrimSuffix(filepath.Base(dir), filepath.Ext(dir)), Kind: "experience", Path: dir})
	}
}

// word returns the word that ends the names of the run's archives.
func (l *dataLister) word() (string, error) {
	word, err := durable.ReadRegular(record.WordFile(l.Buffer.CacheDir), maxWord)
	return string(word), err
}

// rowsOf adds the run's rows of a table that runs share. The run's word ends the name that they have.
func (l *dataLister) rowsOf(key, name, at, table, where, order, begin string) {
	d := dataset.Entry{Key: key, Name: name, Kind: "experience", Path: at}
	word, err := l.word()
	full := begin + "-" + word
	switch {
	case err != nil:
		d.Problem = fmt.Sprintf("the run has no name in this database yet: %v", err)
	case strings.ContainsAny(full, `'\`):
		d.Problem = "the name of the run has a quote or a backslash"
	}
	d.Options.Subset = fmt.Sprintf("SELECT * FROM %s WHERE %s '%s' ORDER BY %s", table, where, full, order)
	if d.Problem != "" {
		l.all = append(l.all, d)
		return
	}
	l.add(d)
}
